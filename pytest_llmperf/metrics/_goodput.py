"""Goodput: the rate of requests that met every limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.errors import UnknownNameError
from pytest_llmperf.metrics._records import NS_A_MS, completed, duration_s, output_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_llmperf.model.record import Replay, RequestRecord

LIMITS = ("ttft", "tpot", "e2el")


def goodput(replay: Replay, limits_ms: Mapping[str, float]) -> float:
    """Return the requests a second that met every limit (``ttft``, ``tpot``, ``e2el`` in ms).

    As ``vllm bench serve --goodput``: a value at its limit meets it, and a request without a
    TPOT (one token) meets any. A failed request never meets one. Over the replay's duration;
    0.0 where nothing completed. Raise UnknownNameError for a limit on anything else.
    """
    for name in limits_ms:
        if name not in LIMITS:
            raise UnknownNameError("goodput limit", name, LIMITS)
    duration = duration_s(replay)
    if duration is None:
        return 0.0
    latencies = (_latencies_ms(record) for record in completed(replay))
    good = sum(
        all(found[name] <= limit for name, limit in limits_ms.items()) for found in latencies
    )
    return good / duration


def _latencies_ms(record: RequestRecord) -> dict[str, float]:
    sent = record.sent_ns or 0
    first, last = record.chunk_ns[0], record.chunk_ns[-1]
    later = output_tokens(record) - record.chunk_tokens[0]
    return {
        "ttft": (first - sent) / NS_A_MS,
        "tpot": (last - first) / later / NS_A_MS if later > 0 else 0.0,
        "e2el": (last - sent) / NS_A_MS,
    }
