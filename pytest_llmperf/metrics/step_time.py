"""Time of an engine step as a decoding request sees it: ``step_time``, in ms, lower is better.

Formula: the mean of ``vllm:inter_token_latency_seconds`` over the replay. vLLM observes that
histogram once a request and step after its first token, by the engine's own clock, however
many tokens the step brought: under speculation it is the time to draft, verify and return, and
does not depend on what was accepted. The gap between chunks (``icl``) is the same seen by the
client, except where a busy server sends the output of two steps as one chunk.
Absent without speculation, where a step brings one token and ``itl`` says the same.

Gated, apart from ``acceptance_length``: GATE.md's two findings of speculative decoding. The
noise to assume is that of ITL and TPOT means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._counters import STEPS, mean_ms, speculates
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def value(replay: Replay) -> float | None:
    """Return ms a step; None where nothing was drafted or steps were not timed."""
    return mean_ms(replay, STEPS) if speculates(replay) else None


METRIC = Scalar(
    "step_time",
    "Engine step",
    "ms",
    Better.LOWER,
    value,
    gated=("step_time",),
    noise=0.01,
    speculative=True,
)
