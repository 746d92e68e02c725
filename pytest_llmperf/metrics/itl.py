"""Inter-token latency: ``itl``, in ms, lower is better.

Formula: the gap to a request's previous chunk, spread evenly over the tokens of the chunk: a
chunk of n tokens after g ms gives n values of g/n. Pooled over completed requests. With one
token a chunk that is exactly the ITL of ``vllm bench serve``; where a chunk brings more
(speculative decoding), vLLM's is the gap itself: see ``icl``.
Mean and median are gated; its p99 varies by 32 % between equal replays (GATE.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_llmperf.metrics._records import NS_A_MS, completed, gaps
from pytest_llmperf.model.metric import Better, Distribution

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def samples(replay: Replay) -> list[float]:
    """Return one value a token after a request's first chunk, in ms."""
    gap_ns, tokens = gaps(completed(replay))
    values: list[float] = np.repeat(gap_ns / np.maximum(tokens, 1) / NS_A_MS, tokens).tolist()
    return values


METRIC = Distribution(
    "itl",
    "Inter-token latency",
    "ms",
    Better.LOWER,
    samples,
    gated=("itl.mean", "itl.median"),
)
