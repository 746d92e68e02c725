"""A forward pass from bytes and FLOPs, on a toy whose numbers are round.

The toy's layers have 2 * (2 * 100 * 10 * (10 + 5) + 3 * 100 * 200) = 180,000 parameters and its
head 1,800 * 100 = 180,000: 360,000 bytes each, 1 ms at 360 MB/s. A token is 360,000 FLOP in each,
0.1 ms at 3.6 GFLOP/s. Its keys and values are 2 * 2 * 5 * 10 * 2 = 400 bytes a token: 900 tokens
take 1 ms. A pair of tokens is 4 * 2 * 10 * 10 = 800 FLOP: 4,500 pairs take 1 ms.
"""

from __future__ import annotations

import pytest

from pytest_llmperf.engines.sim.forward import ForwardTime
from pytest_llmperf.engines.sim.gpus import Efficiency, Gpu, Interconnect, Weights
from pytest_llmperf.engines.sim.shapes import ModelShape

SHAPE = ModelShape("toy", 2, 100, 200, 10, 5, 10, 1800, 1000)
LINK = Interconnect("toy", bandwidth=1e6, latency_s=1e-3, hop_s=0.0)
MS = 1e-3


def toy(
    weights: Weights = "none", gpus: int = 1, value_bytes: int = 2, **efficiency: float
) -> ForwardTime:
    whole = {"bandwidth": 1.0, "compute": 1.0, "layer_s": 0.0, "step_s": 0.0, "unpacked": 1e12}
    gpu = Gpu(
        "toy", 1.0, 360e6, 3.6e9, 7.2e9, 7.2e9, LINK, LINK, Efficiency(**(whole | efficiency))
    )
    return ForwardTime(SHAPE, weights, gpu, LINK, gpus, value_bytes)


def test_a_decode_reads_layers_head_and_context():
    """One token after 899: 1 ms the layers, 1 ms the head, 900 tokens 1 ms."""
    assert toy().seconds([1], [899], 1) == pytest.approx(3 * MS)


def test_weights_are_read_once_for_all_sequences_and_contexts_for_each():
    """Four sequences of 900: 1 + 1 + 4 ms."""
    assert toy().seconds([1] * 4, [899] * 4, 4) == pytest.approx(6 * MS)


def test_many_tokens_are_bound_by_compute():
    """100 tokens: 10 ms in the layers, one row of logits 1 ms, 5,050 pairs 1.122 ms."""
    assert toy().seconds([100], [0], 1) == pytest.approx((10 + 1 + 5050 / 4500) * MS)


def test_a_chunk_meets_all_that_came_before_it():
    """10 tokens after 445: 1 ms the layers, 10 * 445 + 55 = 4,505 pairs 1.001 ms, no logits."""
    assert toy().seconds([10], [445], 0) == pytest.approx((1 + 4505 / 4500) * MS)


def test_rows_of_logits_cost_when_they_are_many():
    """20 rows: 2 ms in the head, of 20 sequences of one token (20 * 400 bytes: 0.022 ms)."""
    assert toy().seconds([1] * 20, [0] * 20, 20) == pytest.approx((2 + 2 + 20 / 900) * MS)


def test_fewer_bits_are_read_faster():
    """FP8: half of the layers' bytes, the head's as before, twice the FLOP/s."""
    eight = toy("fp8")
    assert eight.seconds([1], [0], 1) == pytest.approx((0.5 + 1 + 1 / 900) * MS)
    assert eight.seconds([100], [0], 0) == pytest.approx((5 + 5050 / 4500) * MS)


def test_four_bits_are_unpacked_and_compute_in_sixteen():
    """4.37 of 16 bits: 0.273 ms; unpacking 180,000 at 180e6 a second takes 1 ms; 10 ms as 16."""
    assert toy("int4").seconds([1], [0], 0) == pytest.approx((4.37 / 16 + 1 / 900) * MS)
    slow = toy("int4", unpacked=180e6)
    assert slow.seconds([1], [0], 0) == pytest.approx((1 + 1 / 900) * MS)
    assert slow.seconds([100], [0], 0) == pytest.approx((10 + 5050 / 4500) * MS)


def test_an_eight_bit_cache_is_read_twice_as_fast():
    """900 tokens in half a millisecond."""
    assert toy(value_bytes=1).seconds([1], [899], 0) == pytest.approx(1.5 * MS)


def test_what_is_not_reached_of_a_peak_takes_longer():
    """Half of both: twice the time."""
    half = toy(bandwidth=0.5, compute=0.5)
    assert half.seconds([1], [899], 1) == pytest.approx(6 * MS)
    assert half.seconds([100], [0], 0) == pytest.approx(2 * (10 + 5050 / 4500) * MS)


def test_gaps_between_kernels_add_up():
    """Two layers of 0.2 ms and a step of 0.5 ms: 0.9 ms."""
    slow = toy(layer_s=0.2 * MS, step_s=0.5 * MS)
    assert slow.seconds([1], [899], 1) == pytest.approx(3.9 * MS)


def test_two_gpus_halve_the_work_and_exchange():
    """10 tokens, 2,000 bytes: 2 steps of 1,000 (1 ms) and 1 ms, 3 ms, twice in each of 2 layers.

    One row of logits, 3,600 bytes: 1 step of 1,800 (1.8 ms) and 1 ms. Half of the layers' 1 ms,
    of the head's 1 ms and of 55 pairs' 0.012 ms.
    """
    work = 0.5 + 0.5 + 55 / 9000
    assert toy(gpus=2).seconds([10], [0], 1) == pytest.approx((12 + 2.8 + work) * MS)


def test_the_host_launches_layer_by_layer():
    """Two layers of 0.25 ms."""
    assert toy(host_layer_s=0.25 * MS).launch_s == pytest.approx(0.5 * MS)
