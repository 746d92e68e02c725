"""``pytest-llmperf hardware``: what the GPUs are, how they are wired, what runs on them now."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_llmperf.gpu import Gpu, Link

GIB = 1 << 30
BUSY_LOAD = 0.5
"""Share of the cores in use, over the last minute, above which a host is not quiet."""


def register(calls: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the call."""
    parser = calls.add_parser(
        "hardware",
        help="what the GPUs are, how they are wired, what runs on them, fit for a measurement?",
        description="Show this host as a measurement sees it. Exit status 1: not fit to measure "
        "on now, for the reasons printed.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the hardware; return 0 where it is fit to measure on, 1 where it is not."""
    from pytest_llmperf import gpu
    from pytest_llmperf.launch import read_machine

    found, links, machine = gpu.gpus(), gpu.links(), read_machine(simulated=False)
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    complaints = unfit(found, load)
    if options.json:
        shown = {
            "machine": {"key": machine.key, **asdict(machine)},
            "gpus": [asdict(one) for one in found],
            "links": [asdict(link) for link in links],
            "host": {"cores": os.cpu_count(), "load_share": round(load, 3)},
            "unfit": complaints,
        }
        print(json.dumps(shown, indent=2))
    else:
        print(f"machine   {machine.key}  (what results are compared by)")
        print(f"host      {machine.cpu_model}, {os.cpu_count()} cores, {load:.0%} busy")
        for line in _table(found, links):
            print(line)
        for complaint in complaints:
            print(f"not fit   {complaint}")
        if not complaints:
            gpus = "" if found else ", but there is no GPU to measure: vLLM for the CPU, or sim"
            print(f"fit       nothing here disturbs a measurement now{gpus}")
    return 1 if complaints else 0


def unfit(found: tuple[Gpu, ...], load: float) -> list[str]:
    """Return why this host is not fit to measure on now. ``load``: share of cores in use."""
    complaints = []
    if load > BUSY_LOAD:
        complaints.append(f"host: {load:.0%} of the cores were in use over the last minute")
    for one in found:
        if one.processes:
            pids = ", ".join(str(process.pid) for process in one.processes)
            complaints.append(f"GPU {one.index}: in use by process {pids}")
        elif not one.free_enough:
            complaints.append(f"GPU {one.index}: {one.memory_used / GIB:.1f} GiB are in use")
        if one.throttles:
            complaints.append(
                f"GPU {one.index}: clocks are held down by {', '.join(one.throttles)}"
            )
        if one.mig:
            complaints.append(f"GPU {one.index}: MIG is on, its parts share memory bandwidth")
    return complaints


def _table(found: tuple[Gpu, ...], links: tuple[Link, ...]) -> list[str]:
    if not found:
        return ["gpus      none that NVML shows"]
    lines = []
    for one in found:
        used, total = one.memory_used / GIB, one.memory_total / GIB
        parts: list[Any] = [
            one.name,
            f"{used:.1f} of {total:.1f} GiB used",
            one.compute_capability and f"compute {one.compute_capability}",
            one.driver_version and f"driver {one.driver_version}",
            one.cuda_version and f"CUDA {one.cuda_version}",
            one.power_limit_w and f"{one.power_w or 0:.0f} of {one.power_limit_w:.0f} W",
            one.sm_clock_mhz and f"SM {one.sm_clock_mhz} of {one.sm_clock_max_mhz} MHz",
            one.temperature_c is not None and f"{one.temperature_c} °C",
            one.pcie and f"PCIe {one.pcie[0]} x{one.pcie[1]}",
        ]
        lines.append(f"gpu {one.index}     {', '.join(str(part) for part in parts if part)}")
    lines += [f"link      {ln.first} ↔ {ln.second}: {ln.kind or 'unknown'}" for ln in links]
    return lines
