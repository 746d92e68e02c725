"""Metric: a name, a unit, a direction and a function of records.

A figure is one number of a metric: ``ttft.p99``, ``itl.mean`` of a Distribution,
``output_tps`` of a Scalar, ``kv_tokens`` of a Fact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.record import Replay

STATISTICS = ("mean", "median", "p90", "p95", "p99", "std")


class Better(Enum):
    """Which way is good."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True)
class Metric:
    """What all metrics have.

    ``gated`` names the figures that are judged against a baseline unless a suite says
    otherwise (GATE.md's noise table). ``noise`` is the standard deviation of night means to
    assume, as a share, while a machine has no history of its own (None: the gate's table). ``tolerance`` is the loss
    that a gate must not let pass, where it is not the gate's default. ``throughput`` marks
    what measures the arrivals, not the server, where the offered rate was reached.
    ``speculative`` marks what only a server with speculative decoding has.
    """

    name: str
    title: str
    unit: str
    better: Better
    gated: tuple[str, ...] = field(default=(), kw_only=True)
    noise: float | None = field(default=None, kw_only=True)
    tolerance: float | None = field(default=None, kw_only=True)
    throughput: bool = field(default=False, kw_only=True)
    speculative: bool = field(default=False, kw_only=True)

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of this metric's figures."""
        return (self.name,)


@dataclass(frozen=True)
class Distribution(Metric):
    """Many samples a replay; its figures are their statistics, ``name.mean`` and so on."""

    samples: Callable[[Replay], Sequence[float]]

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of this metric's figures, one a statistic."""
        return tuple(f"{self.name}.{statistic}" for statistic in STATISTICS)


@dataclass(frozen=True)
class Scalar(Metric):
    """One number a replay, or None where the replay has none."""

    value: Callable[[Replay], float | None]


@dataclass(frozen=True)
class Fact(Metric):
    """One number a launch, or None where its log does not say. ``exact`` ones have no noise."""

    value: Callable[[LaunchFacts], float | None]
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure by name, with what it takes from its metric."""

    name: str
    metric: Metric

    @property
    def unit(self) -> str:
        """Unit as shown: ``ms``, ``tok/s``."""
        return self.metric.unit

    @property
    def higher_is_better(self) -> bool:
        """Whether a rise is a gain."""
        return self.metric.better is Better.HIGHER

    @property
    def exact(self) -> bool:
        """Whether the figure has no noise, so that one launch decides."""
        return isinstance(self.metric, Fact) and self.metric.exact

    @property
    def per_launch(self) -> bool:
        """Whether there is one value a launch, not one a replay."""
        return isinstance(self.metric, Fact)
