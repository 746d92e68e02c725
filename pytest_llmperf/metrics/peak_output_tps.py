"""Largest output in one second: ``peak_output_tps``, in tok/s, higher is better.

Formula: the largest number of tokens of completed requests that came within any one second,
wherever that second starts. vLLM's ``max_output_tokens_per_s`` counts chunks, not tokens, in
fixed seconds from the first send: 238 there beside a mean of 520 where chunks bring several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_llmperf.metrics._records import NS_A_S, chunks, completed
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def value(replay: Replay) -> float | None:
    """Return the largest number of tokens in a second; None where no request completed."""
    ns, tokens = chunks(completed(replay))
    if len(ns) == 0:
        return None
    order = np.argsort(ns)
    ns, tokens = ns[order], tokens[order]
    upto = np.concatenate([[0], np.cumsum(tokens)])
    # The best second starts at a chunk: the tokens in [t, t + 1 s) for every chunk time t.
    ends = np.searchsorted(ns, ns + int(NS_A_S), side="left")
    return float((upto[ends] - upto[:-1]).max())


METRIC = Scalar(
    "peak_output_tps",
    "Largest output in one second",
    "tok/s",
    Better.HIGHER,
    value,
    throughput=True,
)
