"""Inter-chunk latency: ``icl``, in ms, lower is better.

Formula: the gap between the chunks of a request as they came, pooled over completed requests.
Source: what ``vllm bench serve`` calls ITL, also where a chunk brings several tokens; AIPerf's
inter-chunk latency. What a reader of the stream sees; per token it is ``itl``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import completed, gaps, milliseconds
from pytest_llmperf.model.metric import Better, Distribution

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def samples(replay: Replay) -> list[float]:
    """Return one value a chunk after a request's first, in ms."""
    gap_ns, _ = gaps(completed(replay))
    return milliseconds(gap_ns)


METRIC = Distribution("icl", "Inter-chunk latency", "ms", Better.LOWER, samples)
