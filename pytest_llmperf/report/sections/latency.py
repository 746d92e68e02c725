"""How TTFT and ITL are distributed: every percentile, the tail drawn out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_llmperf.report.charts import Chart, series
from pytest_llmperf.report.section import Section
from pytest_llmperf.report.series import Numbers, Sample
from pytest_llmperf.report.text import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from pytest_llmperf.report.context import Context
    from pytest_llmperf.report.views import Measured
    from pytest_llmperf.store.runs import Launch

TITLES = {"ttft": "Time to first token", "itl": "Inter-token latency"}
TICKS = (0.5, 0.9, 0.95, 0.99, 0.999)
POINTS = 90
FLATTENED = 20.0
"""A largest value so many times the median gets a logarithmic axis."""
LEAST = 2


@dataclass(frozen=True)
class Curve:
    """One server's latencies, of all launches and of each."""

    server: str
    whole: Sample
    launches: tuple[tuple[Launch, Sample], ...]
    left_out: int


def render(context: Context) -> Markup | None:
    """Return two charts and a table for each traffic of each campaign."""
    blocks = [(measured, _block(context, measured)) for measured in context.measured]
    if not blocks:
        return None
    return context.render("latency.html", blocks=blocks, shares=TICKS, titles=TITLES)


def _block(context: Context, measured: Measured) -> list[tuple[str, list[Curve], Chart | None]]:
    block = []
    for name in TITLES:
        curves = [
            _curve(context, measured, server, name) for server in context.servers_of(measured)
        ]
        there = [curve for curve in curves if curve.whole.count]
        drawn = chart(context, measured, name, there) if there else None
        block.append((name, curves, drawn))
    return block


def _curve(context: Context, measured: Measured, server: str, name: str) -> Curve:
    """Pool a server's replays; those that cannot be trusted only where there is no other."""
    replays = list(measured.replays(server))
    trusted = [(launch, s) for launch, s in replays if not s.invalid] or replays
    by_launch: dict[int, tuple[Launch, list[Sample]]] = {}
    for launch, stored in trusted:
        sample: Sample = getattr(context.reduced(stored), name)
        by_launch.setdefault(launch.number, (launch, []))[1].append(sample)
    launches = tuple((launch, Sample.pooled(of)) for launch, of in by_launch.values())
    whole = Sample.pooled([sample for _, sample in launches])
    return Curve(server, whole, launches, len(replays) - len(trusted))


def chart(context: Context, measured: Measured, name: str, curves: list[Curve]) -> Chart:
    """Return a percentile chart; the axis counts nines, so p99 has as much room as p90."""
    highest = max(float(curve.whole.points[-1]) for curve in curves)
    median = max(float(curve.whole.quantile(0.5)) for curve in curves)
    flat = highest > FLATTENED * median
    most = max(curve.whole.count for curve in curves)
    return Chart(
        [trace for place, curve in enumerate(curves) for trace in _traces(curve, place)],
        alt=_alt(measured, name, curves),
        caption=f"{TITLES[name]} by percentile, ms",
        layout={
            "xaxis": {
                "tickvals": [_nines(share) for share in (0.0, *TICKS)],
                "ticktext": ["min", "p50", "p90", "p95", "p99", "p99.9"],
                "range": [0, _nines(_last(most)) + 0.05],
            },
            "yaxis": {"type": "log", "dtick": "D2"} if flat else {"rangemode": "tozero"},
            "shapes": _limits(context, measured, name),
            "showlegend": len(curves) > 1,
        },
        height=280,
    )


def _traces(curve: Curve, place: int) -> Iterator[dict[str, Any]]:
    color = series(place)
    if len(curve.launches) > 1:
        for launch, sample in curve.launches:
            if sample.count:
                yield _line(
                    sample, f"{curve.server}, launch {launch.number}", color, width=1, opacity=0.4
                )
    yield _line(curve.whole, f"{curve.server}, all launches", color, width=2.5, opacity=1)


def _line(
    sample: Sample, label: str, color: str, *, width: float, opacity: float
) -> dict[str, Any]:
    shares = 1 - 10 ** -np.linspace(0, _nines(_last(sample.count)), POINTS)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "x": _nines(shares),
        "y": sample.quantile(shares),
        "customdata": np.round(shares * 100, 2),
        "line": {"color": color, "width": width},
        "opacity": opacity,
        "hovertemplate": "p%{customdata}: %{y:.4~g} ms<extra>%{fullData.name}</extra>",
        "showlegend": opacity == 1,
    }


def _nines(share: Any) -> Any:
    """Return 1 for p90, 2 for p99, 3 for p99.9."""
    value: float | Numbers = -np.log10(1 - np.asarray(share))
    return float(value) if np.ndim(value) == 0 else value


def _last(count: int) -> float:
    """Return the highest percentile, as a share, that so many values can tell."""
    return 1 - 1 / max(count, LEAST)


def _limits(context: Context, measured: Measured, name: str) -> list[dict[str, Any]]:
    """Return a tick at the percentile of each limit on this latency."""
    shapes = []
    for judged in context.verdicts_on(measured):
        for finding in judged.findings:
            metric, _, statistic = finding.figure.partition(".")
            if finding.kind != "slo" or metric != name or finding.reference is None:
                continue
            share = 0.5 if statistic == "median" else _share(statistic)
            if share is not None:
                place = _nines(share)
                shapes.append(
                    {
                        "type": "line",
                        "x0": place - 0.15,
                        "x1": place + 0.15,
                        "y0": finding.reference,
                        "y1": finding.reference,
                        "line": {"color": "--bad", "width": 3},
                    }
                )
    return shapes


def _share(statistic: str) -> float | None:
    digits = statistic.removeprefix("p")
    return int(digits) / 100 if statistic.startswith("p") and digits.isdigit() else None


def _alt(measured: Measured, name: str, curves: list[Curve]) -> str:
    said = [f"{TITLES[name]} of {measured.title} by percentile."]
    for curve in curves:
        p50, p99 = (number(float(curve.whole.quantile(share)), "ms") for share in (0.5, 0.99))
        said.append(f"{curve.server}: median {p50}, p99 {p99}.")
    return " ".join(said)


SECTION = Section("Latency", 40, render)
