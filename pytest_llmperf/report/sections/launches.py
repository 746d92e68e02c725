"""Can I believe that? Every launch and replay as a point, beside the accepted nights."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from pytest_llmperf.gate import Rule
from pytest_llmperf.metrics import gated_figures
from pytest_llmperf.model.verdict import Finding, Status
from pytest_llmperf.report.charts import Chart, series
from pytest_llmperf.report.section import Section
from pytest_llmperf.report.text import LOOKS, number, percent
from pytest_llmperf.store.runs import Launch, NightMean, StoredReplay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markupsafe import Markup

    from pytest_llmperf.model.metric import Figure
    from pytest_llmperf.report.context import Context
    from pytest_llmperf.report.views import Judged, Measured

NIGHT, INVALID = "--muted", "--bad"
APART = 0.3
"""How far a launch's replays are spread around its place."""
NIGHT_STEP = 0.22
LEAST_SPAN = 0.04
"""The least that the axis spans, as a share: noise of 0.1 % shall not look like a cliff."""
NEAR = 0.3
"""A limit further away than this, as a share, is said and not drawn to scale."""

Point = tuple[float, Launch, StoredReplay]
"""A replay with its place on the axis."""


def render(context: Context) -> Markup | None:
    """Return, for each traffic of each campaign, its charts and the table of its replays."""
    if not context.measured:
        return None
    blocks = [(measured, list(_charts(context, measured))) for measured in context.measured]
    return context.render(
        "launches.html", blocks=blocks, columns=_columns, invalid=LOOKS[Status.INVALID]
    )


def _columns(measured: Measured) -> list[str]:
    """Return the gated figures that these replays have."""
    there = set(measured.figures())
    return [figure.name for figure in gated_figures() if figure.name in there]


def _charts(context: Context, measured: Measured) -> Iterator[Chart]:
    verdicts = context.verdicts_on(measured)
    there = measured.figures()
    judged = [f.figure for j in verdicts for f in j.findings if f.figure in there]
    for name in dict.fromkeys([*judged, *_columns(measured)]):
        findings = [(j, f) for j in verdicts for f in j.findings if f.figure == name]
        yield chart(context, measured, name, findings)


def chart(
    context: Context, measured: Measured, name: str, findings: Sequence[tuple[Judged, Finding]]
) -> Chart:
    """Return one figure's points: accepted nights left of 0, launches right of it."""
    unit, figure = context.unit_of(name), context.figures.get(name)
    nights = next((j.stored.nights[name] for j, _ in findings if j.stored.nights.get(name)), ())
    traces = [_nights(nights, unit)] if nights else []
    for place, server in enumerate(context.servers_of(measured)):
        traces += _points(measured, server, name, unit, place=place)
    shapes = [shape for _, finding in findings for shape in _shapes(finding, figure)]
    return Chart(
        traces,
        alt=_alt(measured, name, unit, figure, findings),
        caption=f"{name}{f', {unit}' if unit else ''}",
        layout={
            "shapes": shapes,
            "xaxis": _axis(len(nights), max(launch.number for launch in measured.launches)),
            "yaxis": {"nticks": 6, "range": _range(traces, shapes)},
            "showlegend": False,
        },
        height=230,
    )


def _nights(nights: Sequence[NightMean], unit: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "accepted nights",
        "x": [_night_place(place, len(nights)) for place in range(len(nights))],
        "y": [night.mean for night in nights],
        "text": [f"{night.date} on {night.host}" for night in nights],
        "marker": {"color": NIGHT, "size": 6},
        "hovertemplate": f"%{{text}}: %{{y:.4~g}} {unit}<extra></extra>",
    }


def _points(
    measured: Measured, server: str, name: str, unit: str, *, place: int
) -> Iterator[dict[str, Any]]:
    """Yield a server's replays, those not to be trusted apart, and its launch means."""
    shift = 0.4 * ((len(measured.servers) - 1) / 2 - place)
    points = [(x + shift, launch, s) for x, launch, s in _placed(measured, server, name)]
    trusted = [point for point in points if not point[2].invalid]
    invalid = [point for point in points if point[2].invalid]
    looks = {"color": series(place), "size": 6, "opacity": 0.55}
    if trusted:
        yield _markers(trusted, name, unit, server, looks)
    if invalid:
        cross = {"color": INVALID, "size": 8, "symbol": "x-thin-open"}
        yield _markers(invalid, name, unit, f"{server}, invalid", cross)
    values: dict[int, list[float]] = {}
    for _, launch, stored in trusted or invalid:
        values.setdefault(launch.number, []).append(stored.figures[name])
    half = APART / len(measured.servers)
    yield {
        "type": "scatter",
        "mode": "lines",
        "name": f"{server}, launch mean",
        "x": [x for at in values for x in (at + shift - half, at + shift + half, None)],
        "y": [y for of in values.values() for y in (fmean(of), fmean(of), None)],
        "line": {"color": series(place), "width": 2.5},
        "hovertemplate": f"launch mean: %{{y:.4~g}} {unit}<extra></extra>",
    }


def _markers(
    points: Sequence[Point], name: str, unit: str, label: str, looks: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label,
        "x": [x for x, _, _ in points],
        "y": [stored.figures[name] for _, _, stored in points],
        "text": [
            f"launch {launch.number}, replay {stored.number}"
            + (f": {stored.invalid}" if stored.invalid else "")
            for _, launch, stored in points
        ],
        "marker": looks,
        "hovertemplate": f"%{{text}}: %{{y:.4~g}} {unit}<extra></extra>",
    }


def _placed(measured: Measured, server: str, name: str) -> Iterator[Point]:
    """Yield each replay with its place: its launch's number, the replays side by side."""
    of = [(launch, s) for launch, s in measured.replays(server) if name in s.figures]
    most = max((stored.number for _, stored in of), default=1)
    width = APART / len(measured.servers)
    for launch, stored in of:
        share = (stored.number - 1) / (most - 1) - 0.5 if most > 1 else 0.0
        yield launch.number + share * 2 * width, launch, stored


def _shapes(finding: Finding, figure: Figure | None) -> Iterator[dict[str, Any]]:
    """Yield the baseline's mean with the loss that is tolerated, or a limit."""
    if finding.reference is None:
        return
    across = {"xref": "paper", "x0": 0, "x1": 1, "layer": "below"}
    line = {"type": "line", **across, "y0": finding.reference, "y1": finding.reference}
    if finding.kind == "slo":
        yield {**line, "line": {"color": "--bad", "width": 1.5, "dash": "dot"}}
        return
    if finding.kind != "baseline":
        return
    yield {**line, "line": {"color": "--muted", "width": 1.5}}
    if figure is None or figure.exact:
        return
    loss = tolerance(finding, figure) * (-1 if figure.higher_is_better else 1)
    yield {
        "type": "rect",
        **across,
        "y0": finding.reference,
        "y1": finding.reference * (1 + loss),
        "fillcolor": "--band",
        "line": {"width": 0},
    }


def tolerance(finding: Finding, figure: Figure | None) -> float:
    """Return the loss that the gate lets pass, as a share: the finding's, or the default."""
    own = figure.metric.tolerance if figure else None
    known = (finding.tolerance, own, Rule().tolerance)
    return next(value for value in known if value is not None)


def _night_place(place: int, nights: int) -> float:
    return 0.3 - (nights - 1 - place) * NIGHT_STEP


def _axis(nights: int, launches: int) -> dict[str, Any]:
    ticks: list[float] = list(range(1, launches + 1))
    labels = [str(tick) for tick in range(1, launches + 1)]
    first = 0.5
    if nights:
        oldest = _night_place(0, nights)
        ticks, labels = [(oldest + 0.3) / 2, *ticks], ["nights", *labels]
        first = oldest - 0.25
    return {
        "tickvals": ticks,
        "ticktext": labels,
        "range": [first, launches + 0.5],
        "showgrid": False,
        "zeroline": False,
        "title": {"text": "launch"},
    }


def _range(traces: Sequence[Mapping[str, Any]], shapes: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return an axis that shows all points, the baseline with its band, and a limit that is near."""
    points = [y for trace in traces for y in trace["y"] if y is not None]
    middle = fmean(points)
    drawn = [y for shape in shapes for y in (shape["y0"], shape["y1"])]
    near = [y for y in drawn if abs(y - middle) <= NEAR * abs(middle)]
    low, high = min([*points, *near]), max([*points, *near])
    half = max((high - low) * 0.54, abs(middle) * LEAST_SPAN / 2, 1e-9)
    return [(low + high) / 2 - half, (low + high) / 2 + half]


def _alt(
    measured: Measured,
    name: str,
    unit: str,
    figure: Figure | None,
    findings: Sequence[tuple[Judged, Finding]],
) -> str:
    said = [f"{name} of {measured.title}: one point a replay, a line a launch."]
    for server in measured.servers:
        values = [s.figures[name] for _, s in measured.replays(server) if name in s.figures]
        if values:
            said.append(f"{server} from {number(min(values))} to {number(max(values), unit)}.")
    for _, finding in findings:
        if finding.reference is not None and finding.kind == "baseline":
            loss = percent(tolerance(finding, figure), signed=False)
            said.append(f"Baseline {number(finding.reference, unit)}, tolerated loss {loss}.")
        elif finding.reference is not None and finding.kind == "slo":
            said.append(f"Limit {number(finding.reference, unit)}.")
    return " ".join(said)


SECTION = Section("Launches and replays", 30, render)
