"""Time to first token: ``ttft``, in ms, lower is better.

Formula: first chunk of output - sent, a completed request at a time. A role, usage or
keep-alive chunk is no output. Time in the client's own queue is not in it: see ``ttft_due``.
Source: ``RequestFuncOutput.ttft`` of vLLM's ``benchmarks/lib/endpoint_request_func.py``.
Its p99 is gated: 1.8 % between replays, 0.5 % between launches, where its mean and median move
by 5 % with the waves of a closed loop (GATE.md).
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
    return milliseconds(first_chunk_ns(records) - integers(r.sent_ns for r in records))


METRIC = Distribution(
    "ttft",
    "Time to first token",
    "ms",
    Better.LOWER,
    samples,
    gated=("ttft.p99",),
    tolerance=0.10,
)
