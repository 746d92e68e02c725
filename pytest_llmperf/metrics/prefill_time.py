"""Time that prompts took: ``prefill_time``, in ms, lower is better.

Formula: the mean a request of ``vllm:request_prefill_time_seconds`` over the replay: from the
first time that it was scheduled to its first token. Absent where it was not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._counters import mean_ms
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay

HISTOGRAM = "vllm:request_prefill_time_seconds"


def value(replay: Replay) -> float | None:
    """Return the mean in ms; None where the server's counters were not read."""
    return mean_ms(replay, HISTOGRAM)


METRIC = Scalar("prefill_time", "Prefill in the server", "ms", Better.LOWER, value)
