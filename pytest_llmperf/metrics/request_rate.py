"""Requests completed a second: ``request_rate``, in req/s, higher is better.

Formula: completed requests / duration. Beside ``offered_rate`` it says whether the server kept
up; where it did, it measures the arrivals.
Source: ``request_throughput`` of ``vllm bench serve``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import completed, per_second
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def value(replay: Replay) -> float | None:
    """Return completed requests a second; None where none was."""
    return per_second(replay, len(completed(replay)))


METRIC = Scalar(
    "request_rate", "Requests completed", "req/s", Better.HIGHER, value, throughput=True
)
