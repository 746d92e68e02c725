"""Time per output token: ``tpot``, in ms, lower is better.

Formula: (last chunk - first chunk) / (output tokens - tokens of the first chunk), a completed
request at a time; a request whose only tokens came in its first chunk has none. With one token
in the first chunk that is the TPOT of ``vllm bench serve``, (latency - ttft) / (tokens - 1),
and AIPerf's ITL. Unlike ``itl`` it weighs every request alike, however long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import (
    NS_A_MS,
    completed,
    first_chunk_ns,
    integers,
    last_chunk_ns,
    output_tokens,
)
from pytest_llmperf.model.metric import Better, Distribution

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def samples(replay: Replay) -> list[float]:
    """Return one value a completed request with tokens after its first chunk, in ms."""
    records = completed(replay)
    later = integers(output_tokens(r) - r.chunk_tokens[0] for r in records)
    spans = last_chunk_ns(records) - first_chunk_ns(records)
    some = later > 0
    values: list[float] = (spans[some] / later[some] / NS_A_MS).tolist()
    return values


METRIC = Distribution("tpot", "Time per output token", "ms", Better.LOWER, samples)
