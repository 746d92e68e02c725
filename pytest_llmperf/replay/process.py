"""The load process seen from the one that started it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Any

from pytest_llmperf.errors import ReplayError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORKER = "pytest_llmperf.replay.worker"
RESULT = "result.json"
LOG = "worker.log"
WATCH_S = 0.5
LINES = 65536


def run_worker(
    job: Path,
    total: int,
    watch: Callable[[], None] | None,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Any]:
    """Run the load process on a job file; return what it wrote of itself.

    ``watch`` is called about twice a second; what it raises ends the load process and goes
    on to the caller. Raise ReplayError if the load process breaks down.
    """
    with (job.parent / LOG).open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", WORKER, str(job), str(time.monotonic_ns())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            process_group=0,  # a terminal's Ctrl-C reaches the parent, which ends the worker
        )
    try:
        if worker.stdout is not None:
            _follow(worker.stdout, total, watch, progress)
        code = worker.wait()
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.wait()
        if worker.stdout is not None:
            worker.stdout.close()
    result = job.parent / RESULT
    if code or not result.exists():
        said = (job.parent / LOG).read_text(errors="replace").strip()
        raise ReplayError(f"the load process ended with status {code}: {said or 'it said nothing'}")
    written: dict[str, Any] = json.loads(result.read_bytes())
    return written


def _follow(
    stdout: IO[bytes],
    total: int,
    watch: Callable[[], None] | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Read progress until the worker closes its output, looking after the server meanwhile."""
    looked = time.monotonic()
    poll = select.poll()
    poll.register(stdout, select.POLLIN)
    while True:
        if poll.poll(WATCH_S * 1e3):
            lines = os.read(stdout.fileno(), LINES).split()
            if not lines:
                return
            if progress is not None:
                progress(int(lines[-1]), total)
        if watch is not None and time.monotonic() - looked >= WATCH_S:
            looked = time.monotonic()
            watch()
