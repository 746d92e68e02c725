"""Share of prompt tokens found in the prefix cache: ``prefix_hit_rate``, higher is better.

Formula: what ``vllm:prefix_cache_hits`` rose by over the replay / what
``vllm:prefix_cache_queries`` rose by, both in tokens. Absent where the counters were not read
or nothing was looked up (prefix caching off).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay

HITS = "vllm:prefix_cache_hits_total"
QUERIES = "vllm:prefix_cache_queries_total"


def value(replay: Replay) -> float | None:
    """Return hits over queries; None where there were none or they were not counted."""
    counters = replay.counters or {}
    if HITS not in counters or not counters.get(QUERIES):
        return None
    return counters[HITS] / counters[QUERIES]


METRIC = Scalar("prefix_hit_rate", "Prefix cache hits", "", Better.HIGHER, value)
