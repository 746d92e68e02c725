"""Time that requests waited in the server: ``queue_time``, in ms, lower is better.

Formula: the mean a request of ``vllm:request_queue_time_seconds`` over the replay: from its
arrival in the engine to the first time that it was scheduled. Absent where it was not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._counters import mean_ms
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay

HISTOGRAM = "vllm:request_queue_time_seconds"


def value(replay: Replay) -> float | None:
    """Return the mean in ms; None where the server's counters were not read."""
    return mean_ms(replay, HISTOGRAM)


METRIC = Scalar("queue_time", "Queue in the server", "ms", Better.LOWER, value)
