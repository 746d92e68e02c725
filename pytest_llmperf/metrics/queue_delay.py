"""Wait in the client before a request is sent: ``queue_delay``, in ms, lower is better.

Formula: sent - due, a completed request at a time. With a cap on concurrency it is the wait
for a free place, otherwise the lag of the load process itself.
Source: ``RequestFuncOutput.client_queue_time`` of vLLM's bench.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import completed, integers, milliseconds
from pytest_llmperf.model.metric import Better, Distribution

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def samples(replay: Replay) -> list[float]:
    """Return one value a completed request, in ms."""
    records = completed(replay)
    sent = integers(r.sent_ns for r in records)
    return milliseconds(sent - integers(r.due_ns for r in records))


METRIC = Distribution("queue_delay", "Wait in the client", "ms", Better.LOWER, samples)
