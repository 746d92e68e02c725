"""Requests put back because the KV cache was full: ``preemptions``, lower is better.

Formula: what ``vllm:num_preemptions`` rose by over the replay. Absent where it was not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay

COUNTER = "vllm:num_preemptions_total"


def value(replay: Replay) -> float | None:
    """Return the number of preemptions; None where the server's counters were not read."""
    return (replay.counters or {}).get(COUNTER)


METRIC = Scalar("preemptions", "Preemptions", "", Better.LOWER, value)
