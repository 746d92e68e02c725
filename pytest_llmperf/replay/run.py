"""Replays: start the load process, watch it, read what it brought."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmperf.errors import ReplayError, StallError
from pytest_llmperf.model.record import ClientHealth, Replay
from pytest_llmperf.model.traffic import Traffic
from pytest_llmperf.replay.job import Orders, Turn, write_job
from pytest_llmperf.replay.process import run_worker
from pytest_llmperf.replay.spool import BYTES, READS

if TYPE_CHECKING:
    from pytest_llmperf.model.launch import Target

STALL_S = 60.0
JOB = "job"

Watch = Callable[[], None]
Progress = Callable[[int, int], None]


def replay(
    traffic: Traffic,
    target: Target,
    *,
    work: Path,
    salt: str | None,
    stall_timeout: float = STALL_S,
    watch: Watch | None = None,
    on_progress: Progress | None = None,
) -> Replay:
    """Send ``traffic`` once to ``target`` and return what came back, a record a request.

    ``work`` is a folder for what is received meanwhile; it is left as it was. ``salt`` goes
    into each request as ``cache_salt`` (None: not sent): a fresh one starts from a prefix cache
    that knows nothing of this traffic. ``watch`` is called about twice a second and raises if
    the server is gone, which ends the replay; ``on_progress(done, total)`` as often.

    Requests that fail are records with an error. Raise ReplayError where none could be sent
    at all, StallError where no stream brought a byte for ``stall_timeout`` seconds.
    """
    if not traffic.requests:
        raise ReplayError(f"traffic {traffic.spec.name!r} holds no request")
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory(prefix="replay-", dir=work) as name:
        folder = Path(name)
        result = _send(traffic, target, folder, salt, stall_timeout, watch, on_progress)
        _check(result, traffic, target, stall_timeout)
        return _read(result, traffic, folder, started_at)


def warm_up(
    traffic: Traffic,
    target: Target,
    *,
    work: Path,
    salt: str | None,
    stall_timeout: float = STALL_S,
    watch: Watch | None = None,
) -> None:
    """Send the traffic's first ``spec.warmups`` requests and discard what comes.

    All at once, up to ``max_concurrency``: kernels still compile under the first real load.
    Later turns wait for no answer here. They carry a salt of their own, so that the replay does not find them in the cache. Raise
    ReplayError, with the server's answer, where none of them succeeded.
    """
    first = [
        replace(request, due_ns=0, prompt=replace(request.prompt, after=None, think_ns=0))
        for request in traffic.requests[: traffic.spec.warmups]
    ]
    if not first:
        return
    done = replay(
        Traffic(traffic.spec, tuple(first), traffic.counted_by),
        target,
        work=work,
        salt=None if salt is None else f"{salt}-warmup",
        stall_timeout=stall_timeout,
        watch=watch,
    )
    if all(record.error for record in done.records):
        raise ReplayError(
            f"none of {len(first)} warm-up requests to {target.base_url} (traffic "
            f"{traffic.spec.name!r}) succeeded; the first: {done.records[0].error}"
        )


def _send(
    traffic: Traffic,
    target: Target,
    folder: Path,
    salt: str | None,
    stall_timeout: float,
    watch: Watch | None,
    on_progress: Progress | None,
) -> dict[str, Any]:
    # Here and below imported late: the load process imports this package, and must start soon.
    from pytest_llmperf.replay.wire import request_bytes

    orders = Orders(
        host=target.host,
        port=target.port,
        max_concurrency=traffic.spec.max_concurrency,
        stall_ns=int(stall_timeout * 1e9),
        parent=os.getpid(),
    )
    due_ns = [request.due_ns for request in traffic.requests]
    turns = [
        Turn(request.index, request.prompt.after, request.prompt.think_ns)
        for request in traffic.requests
        if request.prompt.after is not None
    ]
    write_job(folder / JOB, orders, due_ns, request_bytes(traffic, target, salt), turns)
    return run_worker(folder / JOB, len(due_ns), watch, on_progress)


def _check(result: dict[str, Any], traffic: Traffic, target: Target, stall_timeout: float) -> None:
    """Raise if the replay as a whole came to nothing."""
    where = f"{target.base_url} (traffic {traffic.spec.name!r})"
    if "unreachable" in result:
        raise ReplayError(
            f"no connection to {target.host}:{target.port} for {where}: {result['unreachable']}; "
            "is the server up, and is this its address?"
        )
    total = len(traffic.requests)
    if result["stalled"]:
        raise StallError(
            f"{where}: no stream brought a byte for {stall_timeout:g} s; {result['open']} of "
            f"{total} requests were open, {result['done']} had ended "
            f"({len(result['errors'])} of them in an error) and {result['received']} bytes had "
            "come. See the server's log; a slower server needs a longer stall timeout"
        )
    failed = [why for why in result["errors"].values() if why.startswith("connection failed")]
    if failed and len(failed) + len(result["unsent"]) == total:
        raise ReplayError(
            f"all {len(failed)} requests failed to connect to {target.host}:{target.port}: "
            f"{failed[0]}"
        )


def _read(result: dict[str, Any], traffic: Traffic, folder: Path, started_at: str) -> Replay:
    from pytest_llmperf.replay.parse import Sent, read_records
    from pytest_llmperf.replay.stamps import arrival_times, load_reads

    reads = load_reads(folder / READS)
    times, clock = arrival_times(reads, result["offsets"])
    sent = Sent(
        due_ns=result["due"],
        sent_ns=result["sent"],
        asked_tokens=[request.prompt.output_tokens for request in traffic.requests],
        ignore_eos=traffic.spec.ignore_eos,
        errors={int(index): error for index, error in result["errors"].items()},
        unsent={int(index): _turn(traffic, root) for index, root in result["unsent"].items()},
    )
    return Replay(
        traffic=traffic.spec.name,
        digest=traffic.digest,
        records=read_records(sent, folder / BYTES, reads, times),
        offered_rate=traffic.offered_rate,
        max_concurrency=traffic.spec.max_concurrency,
        clock=clock,
        health=_health(result, waited_ns=int((reads.clock_ns - times).max(initial=0))),
        started_at=started_at,
    )


def _turn(traffic: Traffic, index: int) -> tuple[int, int]:
    """Return a request and the number of its turn in its conversation, from 1."""
    number, at = 1, index
    while (after := traffic.requests[at].prompt.after) is not None:
        number, at = number + 1, after
    return index, number


def _health(result: dict[str, Any], waited_ns: int) -> ClientHealth:
    """Read what the load process found of itself.

    ``waited_ns``: the longest that data lay in a socket, by the kernel's clock. It tells of a
    process that did not get a core, which its own clock cannot.
    """
    lags = sorted(send_lags(result["due"], result["sent"], result["held"])) or [0]
    return ClientHealth(
        send_lag_p99_ns=lags[int(0.99 * (len(lags) - 1))],
        send_lag_max_ns=lags[-1],
        loop_lag_max_ns=max(result["loop_lag_ns"], waited_ns),
        cpu_s=result["cpu_s"],
        wall_s=result["wall_s"],
        start_s=result["start_s"],
        reconnects=result["reconnects"],
    )


def send_lags(due_ns: list[int], sent_ns: list[int], held: list[int]) -> Iterator[int]:
    """Yield how late each request left that the cap did not hold back (ns).

    In the order in which they were due: against its due time; of several due at one instant,
    against the one before, since one can only follow the other.
    """
    last_due = last_sent = 0
    for due, sent, capped in sorted(zip(due_ns, sent_ns, held, strict=True)):
        if sent and not capped:
            yield max(sent - (max(due, last_sent) if due == last_due else due), 0)
            last_due, last_sent = due, sent
