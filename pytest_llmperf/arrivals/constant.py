"""Arrivals at even gaps: ``constant``.

Request i (from 0) is due at (i + 1) / request_rate, as in ``vllm bench serve`` with
``--burstiness inf``. A request_rate of inf makes all requests due at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmperf.arrivals._gaps import owner_of
from pytest_llmperf.model.options import options_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.model.traffic import TrafficSpec


@dataclass(frozen=True, slots=True)
class _Options:
    """It has none."""


class Constant:
    """Even gaps."""

    def due_ns(
        self,
        spec: TrafficSpec,
        recorded: Sequence[int] | None = None,  # noqa: ARG002
    ) -> Sequence[int]:
        """Return when each request is due, in ns after the start."""
        options_from(owner_of(spec), spec.arrival_options, _Options)
        if math.isinf(spec.request_rate):
            return [0] * spec.num_prompts
        return [round((i + 1) * 1e9 / spec.request_rate) for i in range(spec.num_prompts)]


ARRIVAL = Constant()
