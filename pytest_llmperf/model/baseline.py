"""Baseline: the accepted nights of one machine, server and traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.verdict import Noise

Values = tuple[tuple[float, ...], ...]
"""launches × replays of one figure; a figure with one value a launch has one replay."""


@dataclass(frozen=True)
class Night:
    """One accepted session on one host. ``figures``: figure → launches × replays."""

    date: str
    host: str
    figures: Mapping[str, Values]
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """Everything one baseline file holds, nights oldest first.

    ``noise``: figure → sd of night means in y = log(value) with its degrees of freedom,
    estimated from the nights here. ``server`` and ``traffic`` record what was run.
    """

    machine: Machine
    server_name: str
    traffic_name: str
    traffic_digest: str
    server: Mapping[str, Any]
    traffic: Mapping[str, Any]
    nights: tuple[Night, ...]
    noise: Mapping[str, Noise] = field(default_factory=dict)
    anchor: Mapping[str, Any] | None = None

    def values(self, figure: str) -> tuple[Values, ...]:
        """Return nights × launches × replays of a figure, of the nights that have it."""
        return tuple(n.figures[figure] for n in self.nights if n.figures.get(figure))
