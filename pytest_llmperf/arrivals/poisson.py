"""Independent arrivals at a mean rate: ``poisson``, the default.

As ``get_request`` of ``vllm bench serve`` (0.32): gaps from the exponential distribution, then
stretched so that the last request is due at exactly num_prompts / request_rate. For the same
seed the schedule is vLLM's own to the nanosecond, except after its prefix_repetition dataset,
which draws from the same generator first. A request_rate of inf makes all requests due at
once. ``burstiness`` is that of ``gamma``; 1, the default, is a Poisson process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmperf.arrivals._gaps import at_mean_rate, burstiness_rule, owner_of
from pytest_llmperf.model.options import options_from, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.model.traffic import TrafficSpec


@dataclass(frozen=True, slots=True)
class _Options:
    burstiness: float = 1.0


class Poisson:
    """Gamma gaps, scaled to the rate."""

    def due_ns(
        self,
        spec: TrafficSpec,
        recorded: Sequence[int] | None = None,  # noqa: ARG002
    ) -> Sequence[int]:
        """Return when each request is due, in ns after the start."""
        options = options_from(owner_of(spec), spec.arrival_options, _Options)
        require(owner_of(spec), burstiness_rule(options.burstiness))
        return at_mean_rate(spec, options.burstiness)


ARRIVAL = Poisson()
