"""The catalog of metrics, apart so that the figures and the package can both import it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.catalog import Catalog

if TYPE_CHECKING:
    from pytest_llmperf.model.metric import Metric

METRICS: Catalog[Metric] = Catalog("metric", "pytest_llmperf.metrics")
"""Every metric by name."""
