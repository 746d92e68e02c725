"""Share of drafted tokens that were accepted: ``acceptance_rate``, 0 to 1, higher is better.

Formula: accepted / drafted tokens, both what vLLM's counters rose by over the replay. Absent
where nothing was drafted. It falls with longer drafts, whose last tokens are accepted least:
compare it at one length only.
Source: "Avg Draft acceptance rate" in vLLM's log (``v1/spec_decode/metrics.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._counters import ACCEPTED_TOKENS, DRAFT_TOKENS, share
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def value(replay: Replay) -> float | None:
    """Return accepted over drafted; None where nothing was drafted or it was not counted."""
    return share(replay, ACCEPTED_TOKENS, DRAFT_TOKENS)


METRIC = Scalar(
    "acceptance_rate", "Accepted draft tokens", "", Better.HIGHER, value, speculative=True
)
