"""Largest number of requests in flight at an instant: ``peak_concurrency``, lower is better.

Formula: the maximum over time of requests sent whose stream has not ended, failed ones
included. In an open loop a slower server has more of them; a closed loop reaches its cap.
vLLM's ``max_concurrent_requests`` counts all that were in flight at any time of a second: 17
under a cap of 10 in samples/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import in_flight
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def value(replay: Replay) -> float | None:
    """Return the largest number in flight; None where nothing was seen to be."""
    _, running = in_flight(replay)
    most = float(running.max(initial=0))
    return most if most > 0 else None


METRIC = Scalar("peak_concurrency", "Largest concurrency", "", Better.LOWER, value)
