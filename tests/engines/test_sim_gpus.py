"""The GPUs: data sheets, what is reached of them, and what connects them."""

from __future__ import annotations

import pytest

from pytest_llmperf.engines.sim.gpus import GPUS, Interconnect

TOY = Interconnect("toy", bandwidth=1e6, latency_s=1e-3, hop_s=1e-4)


def test_an_all_reduce_is_a_ring():
    """4 GPUs, 4,000 bytes: 6 steps of 1,000 bytes (1 ms) and 0.1 ms, and 1 ms to begin: 7.6 ms."""
    assert TOY.all_reduce_s(4000, 4) == pytest.approx(7.6e-3)
    assert TOY.all_reduce_s(4000, 2) == pytest.approx(5.2e-3)


def test_an_all_gather_is_half_of_it():
    """3 steps of 1,000 bytes and 0.1 ms, and 1 ms to begin: 4.3 ms."""
    assert TOY.all_gather_s(4000, 4) == pytest.approx(4.3e-3)


def test_one_gpu_sends_nothing():
    """Not even a latency."""
    assert (TOY.all_reduce_s(4000, 1), TOY.all_gather_s(4000, 1)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("key", "bandwidth", "bf16"),
    [
        ("l40s", 864e9, 362e12),
        ("a100", 2039e9, 312e12),
        ("h100", 3350e9, 989e12),
        ("h200", 4800e9, 989e12),
    ],
)
def test_peaks_are_the_data_sheets(key: str, bandwidth: float, bf16: float):
    """Dense, without sparsity; 85 % and 55 % of them are reached, on every GPU."""
    gpu = GPUS[key]
    assert (gpu.bandwidth, gpu.bf16) == (bandwidth, bf16)
    assert gpu.bytes_per_s == pytest.approx(0.85 * bandwidth)
    assert gpu.flops_per_s() == pytest.approx(0.55 * bf16)


def test_eight_bits_compute_faster_where_the_gpu_has_them():
    """A100 has INT8 and no FP8: such weights compute in 16 bits, as 4-bit ones do everywhere."""
    assert GPUS["h200"].flops_per_s("fp8") == 2 * GPUS["h200"].flops_per_s()
    assert GPUS["a100"].flops_per_s("fp8") == GPUS["a100"].flops_per_s()
    assert GPUS["a100"].flops_per_s("int8") == 2 * GPUS["a100"].flops_per_s()
    assert GPUS["l40s"].flops_per_s("int4") == GPUS["l40s"].flops_per_s()


def test_the_interconnect_is_the_faster_one_unless_asked():
    """L40S has PCIe alone, and asking for NVLink there is refused."""
    kinds = [GPUS[key].interconnect(None).name for key in ("l40s", "a100", "h100", "h200")]
    assert kinds == ["PCIe 4", "NVLink", "NVLink", "NVLink"]
    assert GPUS["h200"].interconnect("pcie").name == "PCIe 5"
    with pytest.raises(ValueError, match="L40S has no NVLink"):
        GPUS["l40s"].interconnect("nvlink")
