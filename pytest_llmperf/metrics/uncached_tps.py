"""Throughput of computed tokens: ``uncached_tps``, in tok/s, higher is better.

Formula: (prompt - cached + output tokens) of completed requests / duration, so that a warm
prefix cache cannot pass for a faster engine. Cached tokens are what the server's counter
``vllm:prompt_tokens_cached`` rose by over the replay (which has failed requests in it too);
without it, the sum of ``usage.prompt_tokens_details.cached_tokens``. Absent where the server
says neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import completed, output_tokens, per_second, prompt_tokens
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.model.record import Replay, RequestRecord

COUNTER = "vllm:prompt_tokens_cached_total"


def value(replay: Replay) -> float | None:
    """Return computed tokens a second; None where what was cached is not known."""
    records = completed(replay)
    prompts = prompt_tokens(records)
    cached = (replay.counters or {}).get(COUNTER, _by_usage(records))
    if prompts is None or cached is None:
        return None
    return per_second(replay, prompts - cached + sum(output_tokens(r) for r in records))


def _by_usage(records: Sequence[RequestRecord]) -> int | None:
    """Return the sum of what responses said; one that is silent, among others, has no hit."""
    said = [r.cached_tokens for r in records if r.cached_tokens is not None]
    return sum(said) if said else None


METRIC = Scalar(
    "uncached_tps", "Throughput of computed tokens", "tok/s", Better.HIGHER, value, throughput=True
)
