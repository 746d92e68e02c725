"""Tokens that a draft brings: ``acceptance_length``, higher is better.

Formula: 1 + accepted draft tokens / drafts, both what vLLM's counters rose by over the replay.
The 1 is the token that the target model adds to every draft, accepted or not. Absent where
nothing was drafted, never 1.
Source: "Mean acceptance length" in vLLM's log (``v1/spec_decode/metrics.py``).

It says how good a draft is, not how often one is made: an n-gram drafter makes none where
nothing matches (see ``tokens_per_step``). Gated, apart from ``step_time``, so that a drafter
that is accepted less is not taken for a slower engine. The noise to assume is that of a
decode's other figures: of fixed greedy traffic the answers, and so what is accepted, differ
between runs only where batching turns a near tie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._counters import ACCEPTED_TOKENS, DRAFTS, share
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def value(replay: Replay) -> float | None:
    """Return tokens a draft; None where nothing was drafted or it was not counted."""
    accepted = share(replay, ACCEPTED_TOKENS, DRAFTS)
    return None if accepted is None else 1 + accepted


METRIC = Scalar(
    "acceptance_length",
    "Acceptance length",
    "tokens",
    Better.HIGHER,
    value,
    gated=("acceptance_length",),
    noise=0.01,
    speculative=True,
)
