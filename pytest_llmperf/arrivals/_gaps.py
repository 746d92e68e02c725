"""Random gaps between arrivals, and their sums: what the random processes share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_llmperf.model.options import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.model.traffic import TrafficSpec

Seconds: TypeAlias = npt.NDArray[np.float64]


def owner_of(spec: TrafficSpec) -> str:
    """Return how a message names the arrival process of a traffic."""
    return f"traffic {spec.name!r}, arrival {spec.arrival!r}"


def burstiness_rule(burstiness: Any) -> tuple[bool, str]:
    """Return the rule on a burstiness, for ``require``."""
    holds = is_number(burstiness) and burstiness > 0
    return holds, f"burstiness is {burstiness!r}, not a number above 0"


def arrivals(rates: Seconds, burstiness: float, seed: int) -> Seconds:
    """Return the sums of one random gap a rate, in seconds.

    A gap is drawn from the gamma distribution with the mean 1/rate and the shape
    ``burstiness``: 1 is exponential (a Poisson process), lower comes in bursts, higher is more
    even, inf is even. The generator is numpy's legacy one and the first draw after the seed is
    the first gap, as in ``get_request`` of vLLM's ``benchmarks/serve.py``.
    """
    if math.isinf(burstiness):
        gaps = 1.0 / rates
    else:
        state = np.random.RandomState(seed)
        gaps = state.gamma(shape=burstiness, scale=1.0 / (rates * burstiness))
    return np.cumsum(gaps)


def at_mean_rate(spec: TrafficSpec, burstiness: float) -> Sequence[int]:
    """Return the due times of ``poisson`` and ``gamma``, in ns.

    Random gaps at one rate, then stretched so that the last request is due at exactly
    num_prompts / request_rate, as vLLM's ``get_request`` does. A rate of inf makes all due
    at once.
    """
    if math.isinf(spec.request_rate):
        return [0] * spec.num_prompts
    rates = np.full(spec.num_prompts, float(spec.request_rate))
    seconds = arrivals(rates, burstiness, spec.seed)
    if seconds[-1] > 0:  # gaps of a tiny burstiness may all be too small for a float
        seconds *= (spec.num_prompts / spec.request_rate) / seconds[-1]
    return to_ns(seconds)


def to_ns(seconds: Seconds) -> Sequence[int]:
    """Return times in seconds as whole nanoseconds."""
    whole: list[int] = np.rint(seconds * 1e9).astype(np.int64).tolist()
    return whole
