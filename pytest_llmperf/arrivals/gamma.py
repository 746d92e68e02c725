"""Arrivals at a mean rate in bursts, or more even than chance: ``gamma``.

As ``vllm bench serve --burstiness`` (0.32): gaps from the gamma distribution with the shape
``burstiness``, whose coefficient of variation is 1 / sqrt(burstiness): below 1 requests come in
bursts, 1 is ``poisson``, above 1 they are more even, inf is ``constant``. As for ``poisson`` the
last request is due at exactly num_prompts / request_rate, and the schedule is vLLM's for the
same seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmperf.arrivals._gaps import at_mean_rate, burstiness_rule, owner_of
from pytest_llmperf.model.options import options_from, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.model.traffic import TrafficSpec


@dataclass(frozen=True, slots=True)
class _Options:
    burstiness: float


class Gamma:
    """Gamma gaps, scaled to the rate."""

    def due_ns(
        self,
        spec: TrafficSpec,
        recorded: Sequence[int] | None = None,  # noqa: ARG002
    ) -> Sequence[int]:
        """Return when each request is due, in ns after the start."""
        options = options_from(owner_of(spec), spec.arrival_options, _Options)
        require(
            owner_of(spec),
            burstiness_rule(options.burstiness),
            (
                math.isfinite(spec.request_rate),
                "request_rate is inf: all would be due at once, in one burst; give a rate",
            ),
        )
        return at_mean_rate(spec, options.burstiness)


ARRIVAL = Gamma()
