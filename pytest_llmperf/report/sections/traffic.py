"""What was sent: each recipe, its digest, and how long its prompts and answers are."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_llmperf.model.traffic import PAIRS
from pytest_llmperf.report.charts import Chart, series
from pytest_llmperf.report.section import Section

if TYPE_CHECKING:
    from markupsafe import Markup

    from pytest_llmperf.model.traffic import TrafficSpec
    from pytest_llmperf.report.context import Context
    from pytest_llmperf.store.runs import StoredTraffic

BINS = 30
SHARES = (0.0, 0.5, 0.95, 1.0)


@dataclass(frozen=True)
class Lengths:
    """What was counted, and its mean, smallest, median, p95 and largest, in tokens."""

    what: str
    values: tuple[float, ...]


def render(context: Context) -> Markup | None:
    """Return recipe, lengths and their histogram for each traffic."""
    if not context.run.traffics:
        return None
    blocks = [(t, recipe(t.spec), _lengths(t), chart(t)) for t in context.run.traffics]
    return context.render("traffic.html", blocks=blocks)


def recipe(spec: TrafficSpec) -> dict[str, str]:
    """Return what a recipe says and does not leave to its default, name → value."""
    said: dict[str, str] = {}
    for field in fields(spec):
        value = getattr(spec, field.name)
        if field.name == "name" or (value == field.default and field.name in _SILENT):
            continue
        if field.name in PAIRS:
            said |= {name: _shown(item) for name, item in value}
        else:
            said[field.name] = _shown(value)
    return said


_SILENT = (*PAIRS, "stop", "num_warmups", "max_error_rate", "max_concurrency")


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return "all at once" if math.isinf(value) else f"{value:g}"
    return str(value)


def _lengths(traffic: StoredTraffic) -> list[Lengths]:
    lengths = []
    counted = (("prompt", traffic.prompt_tokens), ("output asked for", traffic.output_tokens))
    for what, values in counted:
        if values:
            array = np.asarray(values, np.float64)
            # Lengths are whole numbers, so their quantiles are taken from among them.
            spread = (int(value) for value in np.quantile(array, SHARES, method="nearest"))
            lengths.append(Lengths(what, (float(array.mean()), *spread)))
    return lengths


def chart(traffic: StoredTraffic) -> Chart | None:
    """Return both histograms in one chart, or None where every length is the same."""
    both = [np.asarray(v, np.float64) for v in (traffic.prompt_tokens, traffic.output_tokens) if v]
    if not any(len(np.unique(values)) > 1 for values in both):
        return None
    highest = max(float(values.max()) for values in both)
    edges = np.linspace(0, highest * 1.0001 + 1, BINS + 1)
    traces = []
    for place, (title, values) in enumerate(
        (("prompt", traffic.prompt_tokens), ("output asked for", traffic.output_tokens))
    ):
        counts, _ = np.histogram(values, edges)
        traces.append(
            {
                "type": "bar",
                "name": title,
                "x": (edges[:-1] + edges[1:]) / 2,
                "y": counts,
                "marker": {"color": series(place)},
                "opacity": 0.6,
                "hovertemplate": "about %{x:.0f} tokens: %{y} requests<extra></extra>",
            }
        )
    return Chart(
        traces,
        alt=f"Histogram of prompt and output lengths of {traffic.spec.name}.",
        caption="Requests by length, tokens",
        layout={"barmode": "overlay", "bargap": 0.02},
        height=210,
    )


SECTION = Section("Traffic", 80, render)
