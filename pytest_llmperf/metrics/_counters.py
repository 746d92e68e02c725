"""What metrics read from the server's own counters, as they rose over the replay.

They are of everything that the server did meanwhile, failed requests included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import NS_A_MS, NS_A_S

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay

MS_A_S = NS_A_S / NS_A_MS

DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED_TOKENS = "vllm:spec_decode_num_accepted_tokens_total"
STEPS = "vllm:inter_token_latency_seconds"
"""vLLM observes it once a request and engine step after its first token, however many tokens
the step brought: under speculation the time of a step, not of a token."""


def counted(replay: Replay, name: str) -> float | None:
    """Return what a counter rose by; None where it was not read."""
    return (replay.counters or {}).get(name)


def share(replay: Replay, part: str, whole: str) -> float | None:
    """Return what ``part`` rose by over what ``whole`` rose by.

    None where either was not read, or ``whole`` did not rise.
    """
    above, below = counted(replay, part), counted(replay, whole)
    return above / below if above is not None and below else None


def mean_ms(replay: Replay, histogram: str) -> float | None:
    """Return the mean of what a histogram of seconds took in over the replay, in ms.

    None where it was not read or took in nothing.
    """
    seconds = share(replay, f"{histogram}_sum", f"{histogram}_count")
    return None if seconds is None else seconds * MS_A_S


def speculates(replay: Replay) -> bool:
    """Whether anything was drafted during the replay."""
    return bool(counted(replay, DRAFTS))
