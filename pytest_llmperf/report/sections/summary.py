"""The answer in ten seconds: what got worse, what could not be judged, what is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmperf.model.verdict import Finding, Status
from pytest_llmperf.report.section import Section
from pytest_llmperf.report.text import LOOKS, count, percent
from pytest_llmperf.report.views import QUIET, SEVERITY, Judged, Measured

if TYPE_CHECKING:
    from markupsafe import Markup

    from pytest_llmperf.report.context import Context


@dataclass(frozen=True)
class Cell:
    """What the matrix says of one server on one traffic."""

    judged: tuple[Judged, ...] = ()
    unjudged: Measured | None = None


def render(context: Context) -> Markup:
    """Return headline, matrix, what did not pass, and what is missing."""
    statuses = Counter(judged.status for judged in context.judged)
    return context.render(
        "summary.html",
        headline=headline(statuses),
        tone=_tone(statuses),
        counts=[(LOOKS[s], statuses[s]) for s in SEVERITY if statuses[s]],
        matrix=_matrix(context),
        traffics=_traffics(context),
        loud=[judged for judged in context.judged if judged.status is not Status.PASSED],
        invalid=_invalid(context),
        missing=(*context.run.notes, *context.run.missing),
        largest=largest,
        others=_others,
    )


def headline(statuses: Counter[Status]) -> str:
    """Return one line that answers whether anything regressed."""
    total = statuses.total()
    if not total:
        return "Nothing was judged"
    worse = [
        f"{statuses[status]} {said}"
        for status, said in (
            (Status.REGRESSED, "regressed"),
            (Status.SLO_VIOLATED, "broke a limit"),
        )
        if statuses[status]
    ]
    undecided = total - sum(statuses[s] for s in (*QUIET, Status.REGRESSED, Status.SLO_VIOLATED))
    if worse:
        also = [f"{undecided} undecided"] if undecided else []
        return f"{', '.join([*worse, *also])}, of {count(total, 'test')}"
    if undecided == total:
        return "The test could not be judged" if total == 1 else "No test could be judged"
    if undecided:
        return f"No regression seen, but {undecided} of {total} tests undecided"
    improved = f", {statuses[Status.IMPROVED]} improved" if statuses[Status.IMPROVED] else ""
    return f"{'The test' if total == 1 else f'All {total} tests'} passed{improved}"


def largest(judged: Judged) -> Finding | None:
    """Return the finding that moved most against its reference."""
    moved = [f for f in judged.verdict.findings if f.change is not None and f.kind != "slo"]
    return max(moved, key=lambda f: abs(f.change or 0.0), default=None)


def _tone(statuses: Counter[Status]) -> str:
    worst = next((status for status in SEVERITY if statuses[status]), None)
    return LOOKS[worst].tone if worst else "open"


def _traffics(context: Context) -> list[str]:
    judged = {judged.verdict.traffic for judged in context.judged}
    return sorted(judged | {measured.traffic for measured in context.unjudged})


def _matrix(context: Context) -> dict[str, dict[str, Cell]]:
    """Return row → traffic → cell; a row is a server, or a server against another."""
    rows: dict[str, dict[str, Cell]] = {}
    for judged in sorted(context.judged, key=lambda j: (j.verdict.server, j.row)):
        row = rows.setdefault(judged.row, {})
        before = row.get(judged.verdict.traffic, Cell())
        row[judged.verdict.traffic] = Cell((*before.judged, judged))
    for measured in context.unjudged:
        rows.setdefault(measured.campaign, {}).setdefault(measured.traffic, Cell(unjudged=measured))
    return rows


def _invalid(context: Context) -> list[str]:
    """Return the invalid replays that no INVALID verdict tells of."""
    told = {j.measured.slug for j in context.judged if j.measured and j.status is Status.INVALID}
    return [
        f"{launch.server} / {stored.traffic}, launch {launch.number}, replay {stored.number}: "
        f"{stored.invalid}"
        for measured in context.measured
        if measured.slug not in told
        for launch, stored in measured.replays()
        if stored.invalid
    ]


def _others(judged: Judged) -> str:
    """Return what else did not pass in the same test, in a few words."""
    others = [f for f in judged.findings if f is not judged.decisive and f.status not in QUIET]
    return "; ".join(
        f"{f.figure} {LOOKS[f.status].label.lower()}"
        + (f" ({percent(f.change)})" if f.change is not None else "")
        if f.value is not None
        else f.reason
        for f in others
    )


SECTION = Section("Summary", 10, render)
