"""Metrics: what is computed from a replay's records. One module each, with a ``METRIC``.

A figure is one number of a metric: ``ttft.p99`` of a distribution, ``output_tps`` of a scalar,
``kv_tokens`` of a launch. A figure that a replay does not have is absent, never 0.
"""

from __future__ import annotations

from pytest_llmperf.metrics._catalog import METRICS
from pytest_llmperf.metrics._figures import figure, figures_of, gated_figures, launch_figures
from pytest_llmperf.metrics._goodput import goodput
from pytest_llmperf.metrics._offered import offered_limited
from pytest_llmperf.metrics._records import duration_s
from pytest_llmperf.metrics._speculation import speculating

__all__ = [
    "METRICS",
    "duration_s",
    "figure",
    "figures_of",
    "gated_figures",
    "goodput",
    "launch_figures",
    "offered_limited",
    "speculating",
]
