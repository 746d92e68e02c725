"""Arrivals at a rate that rises from request to request: ``ramp_up``.

As ``vllm bench serve --ramp-up-strategy`` (0.32): with p = i / (n - 1) the place of request i
among n, the gap before it has the mean 1/rate of rate = start + (end - start)·p (linear) or
start·(end/start)^p (exponential); ``burstiness`` as for ``poisson``; the sum is not stretched.
The traffic itself must have no request_rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_llmperf.arrivals._gaps import Seconds, arrivals, burstiness_rule, owner_of, to_ns
from pytest_llmperf.model.options import is_number, options_from, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.model.traffic import TrafficSpec

STRATEGIES = ("linear", "exponential")


@dataclass(frozen=True, slots=True)
class _Options:
    start_rps: float
    end_rps: float
    strategy: str = "linear"
    burstiness: float = 1.0

    def rates(self, count: int) -> Seconds:
        """Return the rate at each of ``count`` requests, in requests a second."""
        progress = np.arange(count) / max(count - 1, 1)
        if self.strategy == "linear":
            return self.start_rps + (self.end_rps - self.start_rps) * progress
        rising: Seconds = self.start_rps * (self.end_rps / self.start_rps) ** progress
        return rising


class RampUp:
    """Gamma gaps at a rising rate."""

    def due_ns(
        self,
        spec: TrafficSpec,
        recorded: Sequence[int] | None = None,  # noqa: ARG002
    ) -> Sequence[int]:
        """Return when each request is due, in ns after the start."""
        options = options_from(owner_of(spec), spec.arrival_options, _Options)
        require(
            owner_of(spec),
            (
                math.isinf(spec.request_rate),
                f"request_rate is {spec.request_rate}; leave it out, start_rps and end_rps set it",
            ),
            (
                options.strategy in STRATEGIES,
                f"strategy is {options.strategy!r}, known: {', '.join(STRATEGIES)}",
            ),
            *(
                (
                    is_number(value) and 0 < value < math.inf,
                    f"{name} is {value!r}, not a number above 0",
                )
                for name, value in (("start_rps", options.start_rps), ("end_rps", options.end_rps))
            ),
            burstiness_rule(options.burstiness),
        )
        require(
            owner_of(spec),
            (
                options.start_rps <= options.end_rps,
                f"start_rps is {options.start_rps}, above end_rps, which is {options.end_rps}",
            ),
        )
        return to_ns(arrivals(options.rates(spec.num_prompts), options.burstiness, spec.seed))


ARRIVAL = RampUp()
