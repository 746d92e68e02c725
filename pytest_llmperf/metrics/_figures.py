"""Figures by name, and the figures of a replay and of a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_llmperf.errors import UnknownNameError
from pytest_llmperf.metrics._catalog import METRICS
from pytest_llmperf.metrics._speculation import speculating
from pytest_llmperf.model.metric import Distribution, Fact, Figure, Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.model.launch import LaunchFacts
    from pytest_llmperf.model.record import Replay

PERCENTILES = (90, 95, 99)


def figures_of(replay: Replay) -> dict[str, float]:
    """Return every figure that the replay has, by name, in the metric's unit.

    What it does not have is left out: latencies where no request completed, what the server's
    counters would say where they were not read.
    """
    figures: dict[str, float] = {}
    for name in METRICS:
        metric = METRICS[name]
        if isinstance(metric, Distribution):
            found = statistics(metric.samples(replay))
            figures.update({f"{name}.{statistic}": value for statistic, value in found.items()})
        elif isinstance(metric, Scalar):
            value = metric.value(replay)
            if value is not None:
                figures[name] = float(value)
    return figures


def launch_figures(facts: LaunchFacts) -> dict[str, float]:
    """Return every figure that the launch told, by name; what it did not tell is left out."""
    figures: dict[str, float] = {}
    for name in METRICS:
        metric = METRICS[name]
        if isinstance(metric, Fact):
            value = metric.value(facts)
            if value is not None:
                figures[name] = float(value)
    return figures


def statistics(samples: Sequence[float]) -> dict[str, float]:
    """Return the model's STATISTICS of samples; nothing where there are none.

    As ``vllm bench serve``: percentiles by numpy's linear interpolation, std that of the
    population.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0:
        return {}
    percentiles = zip(PERCENTILES, np.percentile(values, PERCENTILES).tolist(), strict=True)
    return {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        **{f"p{percent}": value for percent, value in percentiles},
        "std": float(values.std()),
    }


def figure(name: str) -> Figure:
    """Return the figure of that name.

    Raise UnknownNameError with the known names: those of its metric where the name starts with
    one (``ttft`` answers with ``ttft.mean`` and so on), all of them otherwise.
    """
    metric_name = name.partition(".")[0]
    if metric_name in METRICS:
        metric = METRICS[metric_name]
        if name in metric.figures:
            return Figure(name, metric)
        raise UnknownNameError("figure", name, metric.figures)
    known = (figure for metric in METRICS for figure in METRICS[metric].figures)
    raise UnknownNameError("figure", name, known)


def gated_figures(arguments: Sequence[str] | None = None) -> tuple[Figure, ...]:
    """Return the figures judged against a baseline unless a suite says otherwise.

    ``arguments``: the server's. Without speculation among them its figures are left out, which
    no replay would have: every figure that is gated costs the others some power. None: not
    known, so all of them.
    """
    drafts = arguments is None or speculating(arguments)
    metrics = [METRICS[name] for name in METRICS]
    return tuple(
        Figure(name, metric)
        for metric in metrics
        if drafts or not metric.speculative
        for name in metric.gated
    )
