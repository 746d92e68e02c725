"""Arrivals as they were recorded: ``trace``, for datasets that have times of their own.

A request is due as long after the first as it was in what was recorded, divided by the
dataset's ``speed``; as ``vllm bench serve --self-timed``, which counts from the trace's time 0.
The rate is the trace's: another one is asked for by ``speed``, or by another arrival process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmperf.arrivals._gaps import owner_of
from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.options import options_from, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.model.traffic import TrafficSpec


@dataclass(frozen=True, slots=True)
class _Options:
    """It has none."""


class Trace:
    """The recorded times."""

    def due_ns(self, spec: TrafficSpec, recorded: Sequence[int] | None = None) -> Sequence[int]:
        """Return ``recorded``; raise SpecError for a dataset that has no times."""
        options_from(owner_of(spec), spec.arrival_options, _Options)
        require(
            owner_of(spec),
            (
                math.isinf(spec.request_rate),
                (
                    f"request_rate is {spec.request_rate}, but a trace has its own times; scale them "
                    "with the dataset's speed=, or set another arrival, such as 'poisson'"
                ),
            ),
        )
        if recorded is None:
            raise SpecError(
                f"{owner_of(spec)}: dataset {spec.dataset!r} has no recorded times; of the "
                "datasets here 'trace' has. Leave arrival out for arrivals at request_rate"
            )
        return list(recorded)


ARRIVAL = Trace()
