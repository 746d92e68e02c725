"""Requests scheduled a second: ``offered_rate``, in req/s.

Formula: (requests - 1) / (last due time - first). Absent where all are due at once, as in a
closed loop. A property of the traffic, so that higher is better means nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def value(replay: Replay) -> float | None:
    """Return scheduled requests a second; None where all were due at once."""
    return replay.offered_rate


METRIC = Scalar("offered_rate", "Requests scheduled", "req/s", Better.HIGHER, value)
