"""Output tokens a second and requests in flight, over the time of each replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_llmperf.report.charts import Chart, series
from pytest_llmperf.report.section import Section
from pytest_llmperf.report.series import Timeline
from pytest_llmperf.report.text import number
from pytest_llmperf.store.runs import Launch, StoredReplay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from pytest_llmperf.report.context import Context
    from pytest_llmperf.report.views import Measured

MOST_REPLAYS = 12
"""More lines than these hide each other: the first replays of each launch are drawn."""

Lines = list[tuple[Launch, StoredReplay, Timeline]]


def render(context: Context) -> Markup | None:
    """Return a chart and a table for each traffic of each campaign."""
    blocks = []
    for measured in context.measured:
        lines = _lines(context, measured)
        blocks.append((measured, lines, chart(context, measured, lines) if lines else None))
    return context.render("throughput.html", blocks=blocks, most=MOST_REPLAYS) if blocks else None


def _lines(context: Context, measured: Measured) -> Lines:
    """Return the replays to draw, as evenly from all launches as there is room for."""
    replays = sorted(measured.replays(), key=lambda pair: (pair[1].number, pair[0].number))
    chosen = sorted(replays[:MOST_REPLAYS], key=lambda p: (p[0].server, p[0].number, p[1].number))
    lines: Lines = []
    for launch, stored in chosen:
        line = context.reduced(stored).timeline
        if line is not None:
            lines.append((launch, stored, line))
    return lines


def chart(context: Context, measured: Measured, lines: Lines) -> Chart:
    """Return tokens a second above requests in flight, a line a replay."""
    return Chart(
        list(_traces(context.servers_of(measured), lines)),
        alt=_alt(measured, lines),
        caption="Output tokens a second, and below it requests in flight, over time",
        layout={
            "xaxis": {"title": {"text": "seconds since the first request"}, "anchor": "y2"},
            "yaxis": {"domain": [0.4, 1], "rangemode": "tozero", "title": {"text": "tok/s"}},
            "yaxis2": {
                "domain": [0, 0.3],
                "rangemode": "tozero",
                "nticks": 4,
                "title": {"text": "in flight"},
            },
        },
        height=380,
    )


def _traces(servers: tuple[str, ...], lines: Lines) -> Iterator[dict[str, Any]]:
    pair = len(servers) > 1
    named: set[str] = set()
    # The legend takes the first line of each group, which shall not be an invalid one.
    for launch, stored, line in sorted(lines, key=lambda of: bool(of[1].invalid)):
        group = launch.server if pair else f"launch {launch.number}"
        place = servers.index(launch.server) if pair else launch.number - 1
        label = f"{launch.server}, launch {launch.number}, replay {stored.number}"
        style = {
            "color": "--bad" if stored.invalid else series(place),
            "width": 1.5,
            "dash": "dot" if stored.invalid else "solid",
        }
        for axis, values, unit in (
            ("y", line.tokens_per_s, "tok/s"),
            ("y2", line.in_flight, "in flight"),
        ):
            yield {
                "type": "scatter",
                "mode": "lines",
                "name": group,
                "legendgroup": group,
                "showlegend": group not in named,
                "text": label + (", invalid" if stored.invalid else ""),
                "x0": line.bucket_s / 2,
                "dx": line.bucket_s,
                "y": np.round(values),
                "yaxis": axis,
                "line": {**style, **({} if axis == "y" else {"shape": "hvh"})},
                "opacity": 0.75,
                "hovertemplate": f"%{{y:,.0f}} {unit} at %{{x:.1f}} s<extra>%{{text}}</extra>",
            }
            named.add(group)


def _alt(measured: Measured, lines: Lines) -> str:
    said = [f"Output tokens a second of {measured.title} over time, one line a replay."]
    for server in measured.servers:
        of = [line for launch, _, line in lines if launch.server == server]
        if of:
            peak = max(float(line.tokens_per_s.max()) for line in of)
            flight = max(line.peak_in_flight for line in of)
            said.append(
                f"{server}: up to {number(round(peak), 'tok/s')} and {flight} requests in flight."
            )
    return " ".join(said)


SECTION = Section("Throughput over time", 50, render)
