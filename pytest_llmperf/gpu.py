"""What the host's NVIDIA GPUs are, how they are wired and what runs on them.

The only importer of pynvml, and that only inside functions: a host without a driver has no
GPUs, which is no error. NVML answers each question or refuses it by itself; what it refuses
reads as None.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY_BYTES = 1 << 30
"""Memory in use above which a GPU is not free: contexts of a desktop stay below."""

LINKS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML's nearest common ancestor of two GPUs, under the names of ``nvidia-smi topo -m``."""

THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
}
"""Bits of NVML's clock event reasons that make a GPU slower than it could be."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process with memory on a GPU. ``used_bytes`` is None where NVML does not say."""

    pid: int
    used_bytes: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as it was at one moment. Memory in bytes, clocks in MHz, energy in millijoules.

    ``throttles`` names what slows the clocks at this moment; None where NVML does not say.
    ``pcie`` is the link as it trained: generation and width.
    """

    index: int
    uuid: str
    name: str
    memory_total: int
    memory_used: int
    memory_free: int
    driver_version: str | None = None
    cuda_version: str | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None
    mig: bool | None = None
    pcie: tuple[int, int] | None = None
    processes: tuple[GpuProcess, ...] = ()
    utilization: int | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    energy_mj: int | None = None
    throttles: tuple[str, ...] | None = None

    @property
    def free_enough(self) -> bool:
        """Whether a server could be measured on it: nobody else has its memory."""
        return self.memory_used < BUSY_BYTES


@dataclass(frozen=True, slots=True)
class Link:
    """How two GPUs reach each other: ``NVLink``, or the PCIe distance as ``PIX`` … ``SYS``."""

    first: int
    second: int
    kind: str | None


def gpus(nvml: Any = None, visible: str | None = None) -> tuple[Gpu, ...]:
    """Return the GPUs that this process may use, in NVML's order; none without a driver.

    ``visible`` is read like CUDA_VISIBLE_DEVICES, and that is its default. ``nvml`` stands
    in for the pynvml module.
    """
    with session(nvml) as opened:
        return opened.gpus(visible) if opened else ()


def links(nvml: Any = None) -> tuple[Link, ...]:
    """Return the connection of every pair of GPUs that this process may use."""
    with session(nvml) as opened:
        return opened.links() if opened else ()


def interconnect(found: tuple[Link, ...]) -> Literal["NVLink", "PCIe", "mixed"] | None:
    """Return one word for all pairs; None where there is no pair or one is not known."""
    kinds = {None if link.kind is None else link.kind == "NVLink" for link in found}
    if not kinds or None in kinds:
        return None
    if len(kinds) > 1:
        return "mixed"
    return "NVLink" if kinds == {True} else "PCIe"


@contextmanager
def session(nvml: Any = None) -> Iterator[Nvml | None]:
    """Open NVML once for many readings; None on a host where it does not open."""
    module = nvml if nvml is not None else _pynvml()
    if module is None or not _opens(module):
        yield None
        return
    try:
        yield Nvml(module)
    finally:
        module.nvmlShutdown()


class Nvml:
    """An open NVML."""

    def __init__(self, module: Any) -> None:
        self._nvml = module
        count = self._ask("nvmlDeviceGetCount") or 0
        handles = [self._ask("nvmlDeviceGetHandleByIndex", n) for n in range(count)]
        self._handles = {n: handle for n, handle in enumerate(handles) if handle is not None}
        self._driver = _text(self._ask("nvmlSystemGetDriverVersion"))
        version = self._ask("nvmlSystemGetCudaDriverVersion")
        self._cuda = f"{version // 1000}.{version % 1000 // 10}" if version else None

    def gpus(self, visible: str | None = None) -> tuple[Gpu, ...]:
        """Return the GPUs that this process may use, as they are now."""
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES") if visible is None else visible
        found = tuple(self._read(index, handle) for index, handle in self._handles.items())
        return found if chosen is None else _visible(found, chosen)

    def links(self) -> tuple[Link, ...]:
        """Return the connection of every pair of GPUs that this process may use."""
        indices = [gpu.index for gpu in self.gpus()]
        pairs = [(a, b) for n, a in enumerate(indices) for b in indices[n + 1 :]]
        return tuple(Link(a, b, self._link(a, b)) for a, b in pairs)

    def _link(self, first: int, second: int) -> str | None:
        one, other = self._handles[first], self._handles[second]
        nvlink = getattr(self._nvml, "NVML_P2P_CAPS_INDEX_NVLINK", 2)
        if self._ask("nvmlDeviceGetP2PStatus", one, other, nvlink) == 0:
            return "NVLink"
        ancestor = self._ask("nvmlDeviceGetTopologyCommonAncestor", one, other)
        return LINKS.get(ancestor) if ancestor is not None else None

    def _read(self, index: int, handle: Any) -> Gpu:
        ask = self._ask
        memory = self._memory(handle)
        capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
        mig = ask("nvmlDeviceGetMigMode", handle)
        generation = ask("nvmlDeviceGetCurrPcieLinkGeneration", handle)
        width = ask("nvmlDeviceGetCurrPcieLinkWidth", handle)
        rates = ask("nvmlDeviceGetUtilizationRates", handle)
        limit = ask("nvmlDeviceGetEnforcedPowerLimit", handle)
        power = ask("nvmlDeviceGetPowerUsage", handle)
        return Gpu(
            index=index,
            uuid=_text(ask("nvmlDeviceGetUUID", handle)) or f"unknown-{index}",
            name=_text(ask("nvmlDeviceGetName", handle)) or "unknown GPU",
            memory_total=memory[0],
            memory_used=memory[1],
            memory_free=memory[2],
            driver_version=self._driver,
            cuda_version=self._cuda,
            compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
            power_limit_w=limit / 1000 if limit is not None else None,
            mig=bool(mig[0]) if mig is not None else None,
            pcie=(generation, width) if generation and width else None,
            processes=self._processes(handle),
            utilization=rates.gpu if rates is not None else None,
            sm_clock_mhz=ask("nvmlDeviceGetClockInfo", handle, 1),
            sm_clock_max_mhz=ask("nvmlDeviceGetMaxClockInfo", handle, 1),
            memory_clock_mhz=ask("nvmlDeviceGetClockInfo", handle, 2),
            temperature_c=ask("nvmlDeviceGetTemperature", handle, 0),
            power_w=power / 1000 if power is not None else None,
            energy_mj=ask("nvmlDeviceGetTotalEnergyConsumption", handle),
            throttles=self._throttles(handle),
        )

    def _memory(self, handle: Any) -> tuple[int, int, int]:
        """Return total, used and free bytes; version 2 counts the driver's own share apart."""
        second = getattr(self._nvml, "nvmlMemory_v2", None)
        memory = None
        if second is not None:
            memory = self._ask("nvmlDeviceGetMemoryInfo", handle, second)
        if memory is None:
            memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        return (memory.total, memory.used, memory.free) if memory is not None else (0, 0, 0)

    def _processes(self, handle: Any) -> tuple[GpuProcess, ...]:
        found: dict[int, int | None] = {}
        for name in (
            "nvmlDeviceGetComputeRunningProcesses",
            "nvmlDeviceGetGraphicsRunningProcesses",
        ):
            for process in self._ask(name, handle) or ():
                found[process.pid] = process.usedGpuMemory
        return tuple(GpuProcess(pid, used) for pid, used in sorted(found.items()))

    def _throttles(self, handle: Any) -> tuple[str, ...] | None:
        bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        if bits is None:
            return None
        return tuple(name for bit, name in THROTTLES.items() if bits & bit)

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Return NVML's answer, None where it refuses: what one driver knows another may not."""
        function = getattr(self._nvml, name, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except self._nvml.NVMLError:
            return None


def _pynvml() -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def _opens(module: Any) -> bool:
    try:
        module.nvmlInit()
    except module.NVMLError:
        return False
    return True


def _visible(found: tuple[Gpu, ...], chosen: str) -> tuple[Gpu, ...]:
    """Return what CUDA_VISIBLE_DEVICES lets through, in its order.

    As CUDA does it: indices or the beginnings of UUIDs, up to the first that names none.
    """
    result: list[Gpu] = []
    for word in (part.strip() for part in chosen.split(",")):
        named = [g for g in found if word == str(g.index) or (word and g.uuid.startswith(word))]
        if not named or named[0] in result:
            break
        result.append(named[0])
    return tuple(result)


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
