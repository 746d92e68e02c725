"""Share of requests that failed: ``error_rate``, 0 to 1, lower is better.

Formula: failed or incomplete requests / all. A request is incomplete whose stream had no end,
that brought fewer tokens than asked under ``ignore_eos``, or none at all. They are left out of
every latency and every token count, and only here they are not: a server that fails its slow
requests gets faster, and this says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import completed
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def value(replay: Replay) -> float | None:
    """Return the share that failed; None where there was no request."""
    if not replay.records:
        return None
    return 1 - len(completed(replay)) / len(replay.records)


METRIC = Scalar("error_rate", "Failed requests", "", Better.LOWER, value)
