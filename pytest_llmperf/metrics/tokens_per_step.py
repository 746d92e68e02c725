"""Tokens that an engine step brings a decoding request: ``tokens_per_step``, higher is better.

Formula: 1 + accepted draft tokens / steps, where every request counts the steps it took part
in after its first token (``vllm:inter_token_latency_seconds_count``), with a draft or without.
Absent where nothing was drafted.

With ``step_time`` it makes up ``itl.mean``: the time of a step over the tokens it brings. It
falls when drafts are accepted less and when fewer are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._counters import ACCEPTED_TOKENS, STEPS, share, speculates
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def value(replay: Replay) -> float | None:
    """Return tokens a step; None where nothing was drafted or steps were not counted."""
    accepted = share(replay, ACCEPTED_TOKENS, f"{STEPS}_count")
    return 1 + accepted if accepted is not None and speculates(replay) else None


METRIC = Scalar(
    "tokens_per_step", "Tokens an engine step", "tokens", Better.HIGHER, value, speculative=True
)
