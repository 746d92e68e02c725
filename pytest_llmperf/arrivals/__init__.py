"""Arrival processes: when each request is due. One module each, with an ``ARRIVAL``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_llmperf.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.model.traffic import TrafficSpec


class Arrival(Protocol):
    """Makes the schedule of a TrafficSpec."""

    def due_ns(self, spec: TrafficSpec, recorded: Sequence[int] | None = None) -> Sequence[int]:
        """Return when each of ``spec.num_prompts`` requests is due, in order.

        In nanoseconds after the start of the replay. ``recorded`` are the times that the
        dataset has of its own, where it is a trace. Raise SpecError for
        ``spec.arrival_options`` that cannot be.
        """


ARRIVALS: Catalog[Arrival] = Catalog("arrival", "pytest_llmperf.arrivals")
"""Every arrival process by name."""
