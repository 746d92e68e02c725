"""The GPUs that are simulated, and what connects them.

Peak figures are the vendor's data sheets', dense (without sparsity); memory is what CUDA, and so
vLLM, reports of it. What a kernel reaches of a peak is in one ``Efficiency``, which holds for
every model, quantisation, number of GPUs and traffic: docs/simulator.md says where each of its
constants comes from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Weights = Literal["none", "fp8", "int8", "int4"]
"""How a model's layers are stored: 16, 8, 8 or about 4 bits a parameter."""

GB = 1e9
TERA = 1e12
MICRO = 1e-6
LARGE_GIB = 70
"""From this size on, A100 excepted, vLLM's defaults batch more (``get_batch_defaults``)."""


@dataclass(frozen=True, slots=True)
class Interconnect:
    """What carries an all-reduce: ``latency_s`` to begin, ``hop_s`` a step of the ring.

    ``bandwidth``: bytes a second and direction, as collectives reach it.
    """

    name: str
    bandwidth: float
    latency_s: float
    hop_s: float

    def all_reduce_s(self, size: float, gpus: int) -> float:
        """Return the seconds of an all-reduce of ``size`` bytes over a ring of ``gpus``."""
        return self._seconds(size, gpus, steps=2 * (gpus - 1))

    def all_gather_s(self, size: float, gpus: int) -> float:
        """Return the seconds until each of ``gpus`` has all ``size`` bytes."""
        return self._seconds(size, gpus, steps=gpus - 1)

    def _seconds(self, size: float, gpus: int, steps: int) -> float:
        if gpus == 1:
            return 0.0
        return self.latency_s + steps * (self.hop_s + size / gpus / self.bandwidth)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What is reached of a GPU's peaks, and what a step costs beside bytes and FLOPs.

    ``layer_s``: small kernels of a layer and the gaps between kernels. ``step_s``: sampling, and
    what else the GPU does once a step. ``unpacked``: 4-bit weights that a kernel can unpack a
    second. The host: ``host_step_s`` to prepare a step and take its result over (hidden behind
    the GPU's work where nothing is drafted), ``host_layer_s`` to launch a layer's kernels
    where no CUDA graph does, ``host_lookup_s`` to look one sequence's n-grams up.
    """

    bandwidth: float = 0.85
    compute: float = 0.55
    layer_s: float = 35 * MICRO
    step_s: float = 500 * MICRO
    unpacked: float = 3.3 * TERA
    host_step_s: float = 4000 * MICRO
    host_layer_s: float = 200 * MICRO
    host_lookup_s: float = 50 * MICRO


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU's data sheet: ``memory_gib``, ``bandwidth`` in bytes a second, FLOP/s by type.

    ``fp8``: None where the tensor cores have no such type, and the weights are unpacked.
    """

    name: str
    memory_gib: float
    bandwidth: float
    bf16: float
    int8: float
    fp8: float | None
    nvlink: Interconnect | None
    pcie: Interconnect
    efficiency: Efficiency = field(default=Efficiency())

    @property
    def large(self) -> bool:
        """Whether vLLM's larger defaults hold: 8,192 tokens and 1,024 sequences a step."""
        return self.memory_gib >= LARGE_GIB and self.name != "A100"

    @property
    def bytes_per_s(self) -> float:
        """Bytes a second that kernels read."""
        return self.bandwidth * self.efficiency.bandwidth

    def flops_per_s(self, weights: Weights = "none") -> float:
        """Return the FLOP/s of a matrix product: 4-bit weights compute in 16 bits."""
        peak = {"fp8": self.fp8, "int8": self.int8}.get(weights) or self.bf16
        return peak * self.efficiency.compute

    def interconnect(self, asked: str | None) -> Interconnect:
        """Return ``nvlink`` or ``pcie``, by default the faster; ValueError for one not there."""
        if asked == "nvlink" and self.nvlink is None:
            raise ValueError(f"{self.name} has no NVLink (pcie)")
        if asked == "pcie" or self.nvlink is None:
            return self.pcie
        return self.nvlink


# NVLink's line rate a direction is half of what data sheets give; NCCL reaches about 80 % of it
# (NVIDIA/nccl-tests issue 212). Two GPUs need about 6 µs for a small message (NVIDIA/nccl #1259).
NVLINK3 = Interconnect("NVLink", 0.8 * 300 * GB, 5 * MICRO, 0.5 * MICRO)
NVLINK4 = Interconnect("NVLink", 0.8 * 450 * GB, 5 * MICRO, 0.5 * MICRO)
# Assumed: without peer-to-peer access every hop goes through the host's memory. Only so do two L40S
# lose against one, as was published (docs/simulator.md).
PCIE4 = Interconnect("PCIe 4", 8 * GB, 40 * MICRO, 15 * MICRO)
PCIE5 = Interconnect("PCIe 5", 16 * GB, 40 * MICRO, 15 * MICRO)

_HOPPER = 989 * TERA

GPUS = MappingProxyType(
    {
        "l40s": Gpu("L40S", 44.4, 864 * GB, 362 * TERA, 733 * TERA, 733 * TERA, None, PCIE4),
        "a100": Gpu("A100", 79.2, 2039 * GB, 312 * TERA, 624 * TERA, None, NVLINK3, PCIE4),
        "h100": Gpu(
            "H100", 79.2, 3350 * GB, _HOPPER, 2 * _HOPPER, 2 * _HOPPER, NVLINK4, PCIE5
        ),
        "h200": Gpu(
            "H200", 139.8, 4800 * GB, _HOPPER, 2 * _HOPPER, 2 * _HOPPER, NVLINK4, PCIE5
        ),
    }
)  # fmt: skip
"""``--sim-gpu`` → profile: L40S 48 GB, A100 80 GB (SXM), H100 80 GB (SXM), H200 141 GB."""
