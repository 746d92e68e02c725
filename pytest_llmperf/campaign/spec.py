"""What a campaign is to do: its servers, its traffics, how often."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import TrafficSpec

MOST = 1000
"""Launches, and replays a launch; no night has time for more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Launches of each server and replays of each traffic a launch.

    The default is the least with which the gate speaks of measured noise: three launches
    (GATE.md), and three replays so that one disturbed replay shows as such.
    """

    launches: int = 3
    replays: int = 3

    def __post_init__(self) -> None:
        for name, value in (("launches", self.launches), ("replays", self.replays)):
            if value < 1:
                raise SpecError(f"--llmperf-{name} is {value}: at least 1 is needed")
            if value > MOST:
                raise SpecError(f"--llmperf-{name} is {value}: at most {MOST:,} are possible")


@dataclass(frozen=True, slots=True)
class CampaignSpec:
    """One server, or a pair (reference, candidate) in turns, and the traffics for each."""

    servers: tuple[ServerSpec, ...]
    traffics: tuple[TrafficSpec, ...]

    def __post_init__(self) -> None:
        if len(self.servers) not in (1, 2):
            raise SpecError(f"a campaign has one server or a pair, not {len(self.servers)}")

    @property
    def label(self) -> str:
        """``candidate-vs-reference`` for a pair; becomes a folder."""
        return "-vs-".join(server.name for server in reversed(self.servers))

    def turns(self, launches: int) -> tuple[ServerSpec, ...]:
        """Return whose turn each launch is.

        A pair goes A B B A A B B A, so that a drift of the host weighs on both alike.
        """
        if len(self.servers) == 1:
            return self.servers * launches
        forth, back = self.servers, self.servers[::-1]
        return tuple(s for turn in range(launches) for s in (back if turn % 2 else forth))
