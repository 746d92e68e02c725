"""Reading a server's ``/metrics``: one number a name, summed over the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Counters

PARTS = ("_bucket", "_created")
"""Series whose sum over labels means nothing: cumulative buckets, and times of creation."""
RISING = ("_total", "_count", "_sum")
START = "process_start_time_seconds"


def counters_from(text: str) -> Counters:
    """Return series name → value summed over its labels, gauges too.

    Buckets of histograms are left out, their ``_sum`` and ``_count`` are there. Raise
    ValueError for a text that is no Prometheus exposition.
    """
    result: dict[str, float] = {}
    for metric in text_string_to_metric_families(text):
        for sample in metric.samples:
            if not sample.name.endswith(PARTS) and "quantile" not in sample.labels:
                result[sample.name] = result.get(sample.name, 0.0) + sample.value
    return result


def risen(before: Counters, after: Counters) -> Counters:
    """Return what every counter rose by; gauges, which also fall, are left out."""
    return {
        name: value - before.get(name, 0.0)
        for name, value in after.items()
        if name.endswith(RISING)
    }


def restarted(before: Counters, after: Counters) -> bool:
    """Whether the server started anew in between: its start moved or a counter fell."""
    return before.get(START) != after.get(START) or any(
        rise < 0 for name, rise in risen(before, after).items() if not name.endswith("_sum")
    )


def labels_of(text: str, name: str) -> list[dict[str, str]]:
    """Return the labels of every series of that name, as ``vllm:cache_config_info`` has them."""
    return [
        dict(sample.labels)
        for metric in text_string_to_metric_families(text)
        for sample in metric.samples
        if sample.name == name
    ]
