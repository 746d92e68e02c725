"""Getting a lease on the GPUs that a server needs."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_llmperf.errors import LeaseError
from pytest_llmperf.launch.lease import Candidate
from pytest_llmperf.launch.shelf import make_room
from pytest_llmperf.launch.supervision import Refused, Supervision
from pytest_llmperf.launch.who import user_name

if TYPE_CHECKING:
    from pytest_llmperf import gpu
    from pytest_llmperf.engines import Engine
    from pytest_llmperf.launch.settings import Host, LaunchSettings
    from pytest_llmperf.model.server import ServerSpec

ASK_AGAIN_S = 1.0
"""How often a lease is asked for while waiting for one."""
SWEPT_S = 10.0
"""Seconds for GPU memory to come back after remains of an earlier launch were ended."""


def gpus_needed(engine: Engine, spec: ServerSpec, settings: LaunchSettings, host: Host) -> int:
    """Return how many GPUs to lease: as set, or the server's own count where there are any."""
    if settings.gpus is not None:
        return settings.gpus
    return spec.gpus if engine.uses_gpu and host.gpus() else 0


def take_lease(
    supervision: Supervision,
    spec: ServerSpec,
    needed: int,
    settings: LaunchSettings,
    host: Host,
    mark: str,
) -> None:
    """Have the supervisor lease ``needed`` GPUs.

    Raise LeaseError, with what keeps each GPU from being had, once the lease's timeout is up.
    """
    holder = {
        "pid": os.getpid(),
        "user": user_name(),
        "server": spec.name,
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        "launch": mark,
        **({"kept": str(settings.keep.folder)} if settings.keep else {}),
    }
    started = time.monotonic()
    while True:
        candidates = [candidate(found) for found in host.gpus()]
        if len(candidates) < needed:
            raise LeaseError(
                f"server {spec.name!r} needs {needed} GPU(s), {len(candidates)} can be seen here "
                "(CUDA_VISIBLE_DEVICES is respected)"
            )
        try:
            supervision.lease(host.leases, candidates, needed, holder)
        except Refused as refusal:
            if settings.keep is not None and (
                gone := make_room(settings.keep.folder, spec.name, settings.stop_timeout)
            ):
                settings.on_progress(f"kept server {gone} was ended: its GPUs are needed")
                continue
            patience = max(settings.lease_timeout, SWEPT_S if refusal.swept else 0.0)
            if time.monotonic() - started >= patience:
                raise LeaseError(
                    f"server {spec.name!r} needs {needed} GPU(s), too few are free: {refusal}. "
                    "Wait until that is done, or end the process named"
                ) from None
            settings.on_progress(f"waiting for {needed} GPU(s): {refusal}")
        else:
            return
        time.sleep(ASK_AGAIN_S)


def candidate(found: gpu.Gpu) -> Candidate:
    """Return a GPU as the supervisor weighs it."""
    users = ", ".join(str(process.pid) for process in found.processes) or "unknown"
    busy = f"{found.memory_used / 2**30:.2f} GiB in use by pid {users}"
    return Candidate(
        found.index,
        found.uuid,
        found.name,
        found.memory_used,
        "" if found.free_enough else busy,
    )
