"""The load process: ``python -m pytest_llmperf.replay.worker JOBFILE SPAWNED_NS``.

``SPAWNED_NS`` is the CLOCK_MONOTONIC time at which it was started. Standard library only, so
that it sends its first byte soon. It writes what it received beside the job file (``spool``),
then ``result.json``, and tells its progress on stdout, one number a line. It ends when its
parent does.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path

from pytest_llmperf.replay.clocks import die_with, exact_timers
from pytest_llmperf.replay.connections import find_address
from pytest_llmperf.replay.exchange import why
from pytest_llmperf.replay.job import read_job
from pytest_llmperf.replay.load import Load, StalledError
from pytest_llmperf.replay.spool import Spool, SpoolError

RESULT = "result.json"


def main(path: Path, spawned_ns: int) -> int:
    """Send the job; return 0 where a result was written."""
    job = read_job(path)
    path.unlink()  # it holds the server's key, and is in memory now
    if not die_with(job.orders.parent):
        return 1
    exact_timers()
    os.set_blocking(sys.stdout.fileno(), False)
    try:
        address = find_address(job.orders.host, job.orders.port)
    except OSError as error:
        result: dict[str, object] = {"unreachable": why(error)}
    else:
        spool = Spool(path.parent)
        load = Load(job, address, spool, tell)
        result = send(load)
        load.close()
        spool.close()
        result["received"] = spool.received
        result["start_s"] = (load.start_ns - spawned_ns) / 1e9
    (path.parent / RESULT).write_text(json.dumps(result))
    return 0


def send(load: Load) -> dict[str, object]:
    """Run the load with nothing else in its way; return what ``result.json`` holds."""
    stalled = False
    load.connect()
    gc.collect()
    gc.freeze()
    gc.disable()
    cpu_s, wall_s = time.process_time(), time.monotonic()
    load.start()
    try:
        load.run()
    except StalledError:
        stalled = True
    cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - wall_s
    return {
        "stalled": stalled,
        "done": load.done,
        "open": load.in_flight,
        "due": load.schedule.due_ns,
        "unsent": load.schedule.unsent,
        "sent": load.exchange.sent_ns,
        "held": list(load.held),
        "errors": load.exchange.errors,
        "offsets": load.offsets,
        "reconnects": load.exchange.reconnects,
        "loop_lag_ns": load.loop_lag_ns,
        "cpu_s": cpu_s,
        "wall_s": wall_s,
    }


def tell(done: int) -> None:
    """Write one line of progress, unless the parent is not reading."""
    try:
        os.write(1, b"%d\n" % done)
    except BlockingIOError:
        return


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
    except SpoolError as error:
        sys.exit(str(error))
