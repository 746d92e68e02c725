"""What a campaign brought: launches, replays, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_llmperf.errors import LlmPerfError, UnknownNameError
from pytest_llmperf.metrics import figure as figure_of
from pytest_llmperf.model.answers import Answers
from pytest_llmperf.model.baseline import Values
from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Traffic


@dataclass(frozen=True)
class ReplayResult:
    """One replay's figures. ``invalid`` says why they cannot be trusted, if so."""

    figures: Mapping[str, float]
    invalid: str | None
    offered_limited: bool


@dataclass(frozen=True)
class LaunchResult:
    """One launch: its facts as figures; by traffic name its replays, and what it answered."""

    server: ServerSpec
    number: int
    facts: LaunchFacts
    figures: Mapping[str, float]
    replays: Mapping[str, tuple[ReplayResult, ...]]
    log: Path
    answers: Mapping[str, Answers] = field(default_factory=dict)


@dataclass(frozen=True)
class CampaignResult:
    """All launches there were.

    ``error`` ended the campaign early; ``missing`` says what it had still to do. ``unbuilt``:
    traffics that could not be made, and why. ``servers``: the names of all that were asked for.
    """

    launches: tuple[LaunchResult, ...]
    traffics: Mapping[str, Traffic]
    error: Exception | None = None
    missing: str = ""
    unbuilt: Mapping[str, LlmPerfError] = field(default_factory=dict)
    servers: tuple[str, ...] = ()

    def of(self, server: str, traffic: str) -> tuple[LaunchResult, ...]:
        """Return the launches of that server which replayed that traffic."""
        return tuple(
            launch
            for launch in self.launches
            if launch.server.name == server and launch.replays.get(traffic)
        )

    def values(self, server: str, traffic: str, figure: str) -> Values:
        """Return launches × replays of a figure, leaving out where it is absent.

        Raise UnknownNameError for a server or traffic that the campaign does not have, or a
        figure that no metric has: nothing measured must not look like nothing wrong.
        """
        rows = self._by_launch(server, traffic, figure)
        if not rows:
            self._require_known(server, traffic, figure)
        return tuple(rows.values())

    def _require_known(self, server: str, traffic: str, figure: str) -> None:
        servers = {*self.servers, *(launch.server.name for launch in self.launches)}
        traffics = {*self.traffics, *self.unbuilt}
        traffics.update(name for launch in self.launches for name in launch.replays)
        for kind, name, known in (("server", server, servers), ("traffic", traffic, traffics)):
            if known and name not in known:  # a campaign that could not begin knows none
                raise UnknownNameError(kind, name, known)
        figure_of(figure)

    def pairs(
        self, reference: str, candidate: str, traffic: str, figure: str
    ) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]:
        """Return (reference replays, candidate replays) of each launch that both have."""
        first = self._by_launch(reference, traffic, figure)
        second = self._by_launch(candidate, traffic, figure)
        return tuple((first[n], second[n]) for n in sorted(first.keys() & second.keys()))

    def _by_launch(self, server: str, traffic: str, figure: str) -> dict[int, tuple[float, ...]]:
        rows: dict[int, tuple[float, ...]] = {}
        for launch in self.of(server, traffic):
            if figure in launch.figures:
                rows[launch.number] = (launch.figures[figure],)
                continue
            replays = launch.replays[traffic]
            if row := tuple(r.figures[figure] for r in replays if figure in r.figures):
                rows[launch.number] = row
        return rows

    def figures(self, server: str, traffic: str) -> dict[str, Values]:
        """Return every figure's launches × replays."""
        names: dict[str, None] = {}
        for launch in self.of(server, traffic):
            names.update(dict.fromkeys(launch.figures))
            for replay in launch.replays[traffic]:
                names.update(dict.fromkeys(replay.figures))
        return {name: self.values(server, traffic, name) for name in names}

    def invalid(self, server: str, traffic: str) -> list[str]:
        """Return why this server's replays of this traffic cannot be trusted, if so.

        What it answered comes first: a broken engine's figures are worth nothing.
        """
        launches = self.of(server, traffic)
        answers = {launch.number: self._nonsense(launch, traffic) for launch in launches}
        nonsense = [f"launch {number}: {why}" for number, why in answers.items() if why]
        return nonsense + [
            f"launch {launch.number}, replay {number}: {replay.invalid}"
            for launch in launches
            for number, replay in enumerate(launch.replays[traffic], 1)
            if replay.invalid
        ]

    @staticmethod
    def _nonsense(launch: LaunchResult, traffic: str) -> str | None:
        answers = launch.answers.get(traffic)
        return answers.nonsense if answers else None

    def offered_limited(self, server: str, traffic: str) -> bool:
        """Whether throughput measured the arrivals, not the server, in any replay."""
        return any(
            replay.offered_limited
            for launch in self.of(server, traffic)
            for replay in launch.replays[traffic]
        )
