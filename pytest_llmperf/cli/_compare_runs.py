"""Two runs, figure by figure: what ``pytest-llmperf compare`` says, as values.

The gate judges B as a night and A as the only night before it. What nights differ by without
a cause cannot be seen in two: it is this machine's noise as B's verdict was given it, or
assumed, exactly as for a first accepted night.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_llmperf.campaign import Gate, judge_server
from pytest_llmperf.campaign.message import differences
from pytest_llmperf.cli._compare_cells import (
    Cell,
    Key,
    cells_of,
    limited_result,
    traffic_differences,
)
from pytest_llmperf.errors import StoreError
from pytest_llmperf.gate import session_alpha
from pytest_llmperf.metrics import METRICS, figure, gated_figures
from pytest_llmperf.model.baseline import Baseline, Night, Values
from pytest_llmperf.model.noise import night_mean
from pytest_llmperf.model.verdict import Noise, Status
from pytest_llmperf.store.baselines import server_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_llmperf.campaign import CampaignResult
    from pytest_llmperf.model.metric import Figure
    from pytest_llmperf.model.verdict import Finding, NoiseSource
    from pytest_llmperf.store.runs import Run

ENOUGH_LAUNCHES = 2
"""Launches of each side from which on their spread says something, and an interval is shown."""


@dataclass(frozen=True)
class Row:
    """One figure on both sides.

    ``change``: b / a − 1, None where a is 0. ``better``: None where nothing changed.
    ``interval``: the change's 90 % interval, where both sides have two launches. ``status``:
    the gate's, of a figure that is gated. ``note``: why there is none.
    """

    figure: str
    unit: str
    a: float
    b: float
    change: float | None
    better: bool | None
    gated: bool
    interval: tuple[float, float] | None = None
    status: Status | None = None
    noise: NoiseSource = "none"
    smallest_detectable_change: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Compared:
    """A server on a traffic that both runs have. ``changed``: arguments, versions."""

    a: Cell
    b: Cell
    rows: tuple[Row, ...]
    changed: tuple[str, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def regressed(self) -> tuple[str, ...]:
        """The gated figures that lost more than noise and tolerance explain."""
        return tuple(row.figure for row in self.rows if row.status is Status.REGRESSED)


@dataclass(frozen=True)
class Comparison:
    """All that two runs have to say about each other. ``apart``: (server, traffic) → why not."""

    a: Run
    b: Run
    compared: tuple[Compared, ...]
    apart: Mapping[Key, str]
    only_a: tuple[Key, ...]
    only_b: tuple[Key, ...]
    versions: tuple[str, ...]


@dataclass(frozen=True)
class _Judging:
    """How B's suite judged a cell: its gate, and its machine's noise of that night."""

    gate: Gate
    noise: Mapping[str, Noise]


def compare(a: Run, b: Run) -> Comparison:
    """Compare run B with run A."""
    first, second = cells_of(a), cells_of(b)
    pairs: list[tuple[Cell, Cell]] = []
    apart: dict[Key, str] = {}
    for key in sorted(first.keys() & second.keys()):
        matched, reason = _matched(first[key], second[key])
        pairs += matched
        if reason:
            apart[key] = reason
    judgings = [_judging(after) for _, after in pairs]
    judged = sum(not of.exact for judging in judgings for of in judging.gate.figures)
    alpha = session_alpha(judged)
    return Comparison(
        a,
        b,
        tuple(
            _compared(before, after, replace(judging, gate=replace(judging.gate, alpha=alpha)))
            for (before, after), judging in zip(pairs, judgings, strict=True)
        ),
        apart,
        tuple(sorted(first.keys() - second.keys())),
        tuple(sorted(second.keys() - first.keys())),
        tuple(_versions(a, b)),
    )


def _matched(
    first: Mapping[str, Cell], second: Mapping[str, Cell]
) -> tuple[list[tuple[Cell, Cell]], str]:
    """Return the cells that can be compared, or why there are none."""
    common = sorted(first.keys() & second.keys())
    if not common:
        before, after = next(iter(first.values())), next(iter(second.values()))
        what = traffic_differences(before, after)
        return [], f"other traffic ({before.digest} → {after.digest}): {what}"
    pairs, reason = [], ""
    for digest in common:
        before, after = first[digest], second[digest]
        empty = [
            f"{side} has no replay that counts: {'; '.join(cell.notes)}"
            for side, cell in (("A", before), ("B", after))
            if not cell.launches
        ]
        if empty:
            reason = "; ".join(empty)
        elif unlike := before.machine.differences(after.machine):
            reason = f"other machine: {', '.join(unlike)}"
        else:
            pairs.append((before, after))
    return pairs, reason


def _judging(cell: Cell) -> _Judging:
    """Return what B's own verdicts on this cell were judged by; the defaults without any."""
    names: dict[str, None] = {}
    tolerances: dict[str, float] = {}
    noise: dict[str, Noise] = {}
    known = _known_figures()
    for stored in cell.run.verdicts:
        verdict, inputs = stored.verdict, stored.inputs
        if (verdict.server, verdict.traffic, verdict.against) != (cell.server, cell.traffic, None):
            continue
        found = (f.figure for f in verdict.findings if f.kind == "baseline")
        names.update(dict.fromkeys(name for name in found if name in known))
        try:
            tolerances |= {k: float(v) for k, v in dict(inputs.get("tolerances") or {}).items()}  # type: ignore[call-overload]
            noise |= {
                name: Noise(float(of["sd"]), float(of["df"]))
                for name, of in dict(inputs.get("noise") or {}).items()  # type: ignore[call-overload]
            }
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"the verdict on {cell.server} with {cell.traffic} in {cell.run.path} is damaged: "
                f"its inputs cannot be read ({error})"
            ) from error
    gated = tuple(map(figure, names or [name for name in tolerances if name in known]))
    return _Judging(Gate(gated or gated_figures(), tolerances), noise)


def _known_figures() -> frozenset[str]:
    return frozenset(name for metric in METRICS for name in METRICS[metric].figures)


def _compared(before: Cell, after: Cell, judging: _Judging) -> Compared:
    result, trouble = limited_result(after)
    first, second = before.figures(), result.figures(after.server, after.traffic)
    known = _known_figures()
    common = [figure(name) for name in second if name in first and name in known]
    strange = sorted((first.keys() | second.keys()) - known)
    baseline = _baseline(before, first)
    findings = _findings(after, result, baseline, replace(judging, gate=_all(judging.gate, common)))
    enough = min(before.shape[0], after.shape[0]) >= ENOUGH_LAUNCHES
    limited = result.offered_limited(after.server, after.traffic)
    gated = {of.name for of in judging.gate.figures}
    rows = [
        _row(
            of,
            (first[of.name], second[of.name]),
            findings.get(of.name),
            gated=of.name in gated,
            enough=enough,
            limited=limited and of.metric.throughput,
        )
        for of in common
    ]
    notes = [f"A: {note}" for note in before.notes] + [f"B: {note}" for note in after.notes]
    notes += [f"B: {trouble}"] if trouble else []
    notes += [f"no metric here gives {', '.join(strange)}"] if strange else []
    return Compared(
        before,
        after,
        tuple(sorted(rows, key=lambda row: not row.gated)),
        tuple(_changed(before, after, baseline)),
        tuple(sorted(first.keys() - second.keys())),
        tuple(sorted(second.keys() - first.keys())),
        tuple(notes),
    )


def _all(gate: Gate, figures: list[Figure]) -> Gate:
    return replace(gate, figures=tuple(figures))


def _baseline(cell: Cell, figures: Mapping[str, Values]) -> Baseline:
    """Return a run as if it were the only accepted night."""
    night = Night(cell.run.header.started_at, "", figures, {"engine_version": cell.engine_version})
    return Baseline(
        cell.machine,
        cell.server,
        cell.traffic,
        cell.digest,
        server_record(cell.spec),
        {},
        (night,),
    )


def _findings(
    cell: Cell, result: CampaignResult, baseline: Baseline, judging: _Judging
) -> dict[str, Finding]:
    verdict = judge_server(
        "compare",
        cell.spec,
        cell.traffic,
        result,
        slos={},
        baseline=baseline,
        gate=judging.gate,
        noise=judging.noise.get,
    )
    return {finding.figure: finding for finding in verdict.findings}


def _row(
    of: Figure,
    sides: tuple[Values, Values],
    finding: Finding | None,
    *,
    gated: bool,
    enough: bool,
    limited: bool,
) -> Row:
    a, b = map(night_mean, sides)
    row = Row(
        of.name,
        of.unit,
        a,
        b,
        change=0.0 if a == b else b / a - 1 if a else None,
        better=None if a == b else (b > a) == of.higher_is_better,
        gated=gated,
    )
    if limited:
        return replace(row, note="the arrivals' rate, not gated")
    if finding is None or finding.reference is None:
        return replace(row, note="not above 0: no ratio to judge" if gated else "")
    return replace(
        row,
        interval=finding.interval if enough and not of.exact else None,
        status=finding.status if gated else None,
        noise=finding.noise,
        smallest_detectable_change=finding.smallest_detectable_change,
    )


def _changed(before: Cell, after: Cell, baseline: Baseline) -> list[str]:
    lines = differences(after.spec, baseline, after.engine_version)
    then, now = before.first.executable, after.first.executable
    if then != now:
        lines.append(f"executable {then} → {now}")
    return lines


def _versions(a: Run, b: Run) -> list[str]:
    then, now = a.header.versions, b.header.versions
    return [
        f"{name} {then.get(name)} → {now.get(name)}"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name)
    ]
