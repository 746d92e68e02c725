"""Reading the fingerprint of the host that results are measured on."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from pytest_llmperf import gpu
from pytest_llmperf.model.machine import Machine

CPUINFO = Path("/proc/cpuinfo")


def read_machine(*, simulated: bool, nvml: Any = None, cpuinfo: Path = CPUINFO) -> Machine:
    """Return what must match for results to be comparable.

    A simulated machine has no GPU fields: what is simulated is in the server's arguments.
    ``nvml`` stands in for the pynvml module.
    """
    cpu = cpu_model(cpuinfo)
    found = () if simulated else gpu.gpus(nvml)
    if not found:
        return Machine(cpu_model=cpu, simulated=simulated)
    first = found[0]
    limit = min((g.power_limit_w for g in found if g.power_limit_w is not None), default=None)
    return Machine(
        gpu_model=" + ".join(sorted({g.name for g in found})),
        gpu_count=len(found),
        interconnect=gpu.interconnect(gpu.links(nvml)),
        driver_branch=first.driver_version.split(".")[0] if first.driver_version else None,
        cuda_major=int(first.cuda_version.split(".")[0]) if first.cuda_version else None,
        mig=None if any(g.mig is None for g in found) else any(g.mig for g in found),
        power_limit_w=round(limit) if limit is not None else None,
        cpu_model=cpu,
    )


def cpu_model(cpuinfo: Path = CPUINFO) -> str | None:
    """Return the CPU's name; where ``/proc/cpuinfo`` has none, as on Arm, its architecture."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and name.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return platform.machine() or None
