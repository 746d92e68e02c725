"""Waiting for the GPU memory of a server that has ended. Standard library only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_llmperf.launch import family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_llmperf.gpu import Gpu
    from pytest_llmperf.launch.lease import Candidate

LOOK_S = 0.1
TOLERANCE = 256 << 20
"""Bytes above the use before the launch that count as freed: NVML's figure wavers."""

Use = tuple[int, tuple[str, ...]]
"""Bytes in use on a GPU, and the processes that NVML names."""


def use_of(gpus: Iterable[Gpu]) -> dict[str, Use]:
    """Return UUID → use of each GPU as NVML has just read it."""
    return {
        gpu.uuid: (
            gpu.memory_used,
            tuple(str(family.member(user.pid) or user.pid) for user in gpu.processes),
        )
        for gpu in gpus
    }


def wait_for_memory(
    gpus: tuple[Candidate, ...],
    read: Callable[[], Mapping[str, Use]],
    *,
    limit: float,
    reap: Callable[[], object] = lambda: None,
) -> list[str]:
    """Wait until each GPU has no more memory in use than before its lease.

    ``read`` maps UUIDs to the use now; a GPU it does not know counts as free. Return a line
    for each GPU that is not free after ``limit`` seconds.
    """
    deadline = time.monotonic() + limit
    while True:
        reap()
        use = read()
        occupied = [gpu for gpu in gpus if _surplus(gpu, use) > TOLERANCE]
        if not occupied:
            return []
        if time.monotonic() >= deadline:
            return [
                f"{gpu} has {_surplus(gpu, use) / 2**30:.2f} GiB more in use than before the "
                f"launch, by pid {', '.join(use[gpu.uuid][1]) or 'unknown'}"
                for gpu in occupied
            ]
        time.sleep(LOOK_S)


def _surplus(gpu: Candidate, use: Mapping[str, Use]) -> int:
    return use[gpu.uuid][0] - gpu.used if gpu.uuid in use else 0
