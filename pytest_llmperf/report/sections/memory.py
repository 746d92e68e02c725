"""The memory budget of each server's GPU, how much traffic it holds, and the start-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_llmperf.report.charts import Chart
from pytest_llmperf.report.section import Section
from pytest_llmperf.report.text import number

if TYPE_CHECKING:
    from markupsafe import Markup

    from pytest_llmperf.model.launch import LaunchFacts
    from pytest_llmperf.report.context import Context
    from pytest_llmperf.store.runs import Launch

PARTS = (("weights_gib", "weights"), ("kv_gib", "KV cache"), ("graphs_gib", "CUDA graphs"))
COLORS = ("--series-1", "--series-6", "--series-5")


def render(context: Context) -> Markup | None:
    """Return a bar a server and a row a launch, of what the logs say."""
    launches = [launch for launch in context.run.launches if launch.facts is not None]
    if not launches:
        return None
    bars = _bars(launches)
    phases = list(dict.fromkeys(p for of in launches if of.facts for p in of.facts.phases))
    return context.render(
        "memory.html", launches=launches, phases=phases, chart=chart(bars) if bars else None
    )


def _bars(launches: list[Launch]) -> dict[str, LaunchFacts]:
    """Return label → facts: one bar a server, and one more for each launch that differs."""
    bars: dict[str, LaunchFacts] = {}
    seen: set[tuple[Any, ...]] = set()
    for launch in launches:
        facts = launch.facts
        parts = tuple(getattr(facts, key) for key, _ in PARTS)
        if facts is None or not any(parts) or (launch.server, *parts) in seen:
            continue
        seen.add((launch.server, *parts))
        differs = launch.server in bars
        bars[f"{launch.server}, launch {launch.number}" if differs else launch.server] = facts
    return bars


def chart(bars: dict[str, LaunchFacts]) -> Chart:
    """Return stacked bars in GiB a GPU."""
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": title,
            "y": list(bars),
            "x": [getattr(facts, key) for facts in bars.values()],
            "marker": {"color": color},
            "hovertemplate": f"{title}: %{{x:.4~g}} GiB<extra>%{{y}}</extra>",
        }
        for color, (key, title) in zip(COLORS, PARTS, strict=True)
        if any(getattr(facts, key) is not None for facts in bars.values())
    ]
    return Chart(
        traces,
        alt=" ".join(_alt(label, facts) for label, facts in bars.items()),
        caption="Memory a GPU, GiB",
        layout={
            "barmode": "stack",
            "bargap": 0.35,
            "yaxis": {"autorange": "reversed", "showgrid": False},
            "legend": {"traceorder": "normal"},
        },
        height=110 + 36 * len(bars),
    )


def _alt(label: str, facts: LaunchFacts) -> str:
    parts = [
        f"{title} {number(value, 'GiB')}"
        for key, title in PARTS
        if (value := getattr(facts, key)) is not None
    ]
    return f"{label}: {', '.join(parts)}."


SECTION = Section("Memory and start-up", 60, render)
