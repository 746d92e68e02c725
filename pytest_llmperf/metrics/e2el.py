"""End-to-end latency: ``e2el``, in ms, lower is better.

Formula: last chunk of output - sent, a completed request at a time. The usage chunk and the
end of the stream that follow are not in it.
Source: ``RequestFuncOutput.latency`` of vLLM's ``benchmarks/lib/endpoint_request_func.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import completed, integers, last_chunk_ns, milliseconds
from pytest_llmperf.model.metric import Better, Distribution

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def samples(replay: Replay) -> list[float]:
    """Return one value a completed request, in ms."""
    records = completed(replay)
    return milliseconds(last_chunk_ns(records) - integers(r.sent_ns for r in records))


METRIC = Distribution("e2el", "End-to-end latency", "ms", Better.LOWER, samples)
