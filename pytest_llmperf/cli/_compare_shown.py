"""How a comparison of two runs is shown: as text, and as plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pytest_llmperf.campaign.message import number, percent
from pytest_llmperf.cli._text import counted, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_llmperf.cli._compare_cells import Cell, Key
    from pytest_llmperf.cli._compare_runs import Compared, Comparison, Row
    from pytest_llmperf.store.runs import Run

MINOR = ("p90", "p95", "std")
"""Statistics that are shown on request only."""

CAVEAT = """\
Two nights are compared: B is judged as if A were its only accepted night. Two nights cannot show
how much nights differ by themselves: that is assumed, or this machine's where B's verdict knew
it. Intervals are 90 %."""


def lines(found: Comparison, *, everything: bool) -> Iterator[str]:
    """Yield the comparison as text; ``everything``: minor statistics too."""
    yield from table((), [_run_line(name, run) for name, run in (("A", found.a), ("B", found.b))])
    for line in found.versions:
        yield f"changed: {line}"
    for pair in found.compared:
        yield ""
        yield from _pair_lines(pair, everything=everything)
    if found.apart:
        yield ""
    for key, reason in found.apart.items():
        yield f"not compared: {_name(key)}: {reason}"
    for side, keys in (("A", found.only_a), ("B", found.only_b)):
        if keys:
            yield f"only in {side}: {', '.join(map(_name, keys))}"
    if not found.compared:
        yield "nothing could be compared"
        return
    yield ""
    yield CAVEAT


def _run_line(name: str, run: Run) -> tuple[str, ...]:
    state = run.outcome if run.status == "finished" else "unfinished: as far as it got"
    mark = "SIMULATED" if run.header.simulated else ""
    return name, run.path.name, _when(run), str(state), run.header.machine.key, mark


def _when(run: Run) -> str:
    try:
        return f"{datetime.fromisoformat(run.header.started_at).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return run.header.started_at


def _pair_lines(pair: Compared, *, everything: bool) -> Iterator[str]:
    yield f"{_name((pair.b.server, pair.b.traffic))}   A: {_shape(pair.a)}, B: {_shape(pair.b)}"
    for line in pair.changed:
        yield f"  changed: {line}"
    for line in pair.notes:
        yield f"  note: {line}"
    rows = [row for row in pair.rows if everything or _chief(row)]
    head = ("figure", "A", "B", "", "change", "", "interval", "gate")
    for line in table(head, [_cells(row) for row in rows], right="124"):
        yield f"  {line}"
    for side, names in (("A", pair.only_a), ("B", pair.only_b)):
        if names:
            yield f"  only in {side}: {', '.join(names)}"


def _chief(row: Row) -> bool:
    return row.gated or row.figure.partition(".")[2] not in MINOR


def _cells(row: Row) -> tuple[str, ...]:
    word = {None: "", True: "better", False: "worse"}[row.better]
    change = "none" if row.change == 0 else "" if row.change is None else percent(row.change)
    ends = " … ".join(map(percent, row.interval)) if row.interval else ""
    told = row.status.value if row.status else row.note
    return row.figure, number(row.a), number(row.b), row.unit, change, word, ends, told


def _shape(cell: Cell) -> str:
    launches, replays = cell.shape
    return f"{counted(launches, 'launch')} × {counted(replays, 'replay')}"


def _name(key: Key) -> str:
    return "/".join(key)


def plain(found: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON has it."""
    return {
        "a": _plain_run(found.a),
        "b": _plain_run(found.b),
        "changed": list(found.versions),
        "compared": [_plain_pair(pair) for pair in found.compared],
        "not_compared": [
            {"server": server, "traffic": traffic, "reason": reason}
            for (server, traffic), reason in found.apart.items()
        ],
        "only_in_a": list(map(_name, found.only_a)),
        "only_in_b": list(map(_name, found.only_b)),
    }


def _plain_run(run: Run) -> dict[str, Any]:
    return {
        "id": run.path.name,
        "path": str(run.path),
        "started_at": run.header.started_at,
        "status": run.status,
        "outcome": run.outcome,
        "machine": run.header.machine.key,
        "simulated": run.header.simulated,
    }


def _plain_pair(pair: Compared) -> dict[str, Any]:
    return {
        "server": pair.b.server,
        "traffic": pair.b.traffic,
        "digest": pair.b.digest,
        "launches": {"a": pair.a.shape[0], "b": pair.b.shape[0]},
        "replays": {"a": pair.a.shape[1], "b": pair.b.shape[1]},
        "changed": list(pair.changed),
        "notes": list(pair.notes),
        "figures": [
            {**asdict(row), "status": row.status.value if row.status else None} for row in pair.rows
        ],
        "regressed": list(pair.regressed),
        "only_in_a": list(pair.only_a),
        "only_in_b": list(pair.only_b),
    }
