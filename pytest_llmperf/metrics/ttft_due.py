"""Time to first token from the due time: ``ttft_due``, in ms, lower is better.

Formula: first chunk of output - due, a completed request at a time: what a user waited. With a
cap on concurrency the wait in the client's queue is part of it, which ``ttft`` leaves out
(timing from the send alone is called coordinated omission).
Source: G. Tene, "How NOT to Measure Latency"; ``client_queue_time`` of vLLM's bench.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import completed, first_chunk_ns, integers, milliseconds
from pytest_llmperf.model.metric import Better, Distribution

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def samples(replay: Replay) -> list[float]:
    """Return one value a completed request, in ms."""
    records = completed(replay)
    return milliseconds(first_chunk_ns(records) - integers(r.due_ns for r in records))


METRIC = Distribution(
    "ttft_due", "Time to first token from the due time", "ms", Better.LOWER, samples
)
