"""One run's share of a comparison: launches and replays of each server on each traffic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_llmperf.campaign import CampaignResult, LaunchResult, ReplayResult
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import StoreError
from pytest_llmperf.metrics import launch_figures, offered_limited
from pytest_llmperf.store.recipes import recipe_differences, recipe_of
from pytest_llmperf.store.runs import Launch, Run, StoredReplay, StoredTraffic, read_replay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_llmperf.model.baseline import Values
    from pytest_llmperf.model.machine import Machine
    from pytest_llmperf.model.server import ServerSpec

Key = tuple[str, str]
"""(server, traffic)."""


@dataclass(frozen=True)
class Cell:
    """What one run has of a server on a traffic of one digest.

    ``launches``: those that replayed it, of all campaigns, with the replays that count.
    ``notes``: what was left out, and why.
    """

    run: Run
    server: str
    traffic: str
    digest: str
    launches: tuple[tuple[Launch, tuple[StoredReplay, ...]], ...]
    notes: tuple[str, ...]

    @property
    def first(self) -> Launch:
        """A launch that counts, for what all of them have in common."""
        return self.launches[0][0]

    @property
    def spec(self) -> ServerSpec:
        """What was launched."""
        assert self.first.spec is not None  # noqa: S101 - cells_of leaves out what has none
        return self.first.spec

    @property
    def engine_version(self) -> str | None:
        """The engine's version, from its log."""
        return self.first.facts.engine_version if self.first.facts else None

    @property
    def machine(self) -> Machine:
        """What its results are compared by: a simulated server's never meet a real one's."""
        engine = self.spec.engine
        pretended = (engine in ENGINES and ENGINES[engine].simulated) or (
            self.engine_version or ""
        ).endswith("-sim")
        return replace(self.run.header.machine, simulated=pretended)

    @property
    def shape(self) -> tuple[int, int]:
        """How many launches, and replays of the one that has most."""
        return len(self.launches), max(len(replays) for _, replays in self.launches)

    def result(self, *, limited: bool = False) -> CampaignResult:
        """Return it as a campaign's result.

        With ``limited`` each replay's requests are read, to say whether its throughput is the
        server's or the arrivals'. Raise StoreError where that is asked and they are not there.
        """
        return CampaignResult(
            tuple(
                LaunchResult(
                    self.spec,
                    number,  # of its own: each campaign counts its launches from 1
                    launch.facts,
                    launch_figures(launch.facts),
                    {self.traffic: tuple(_replay(one, limited=limited) for one in replays)},
                    launch.path,
                )
                for number, (launch, replays) in enumerate(self.launches, 1)
                if launch.facts is not None
            ),
            traffics={},
        )

    def figures(self) -> Mapping[str, Values]:
        """Return every figure's launches × replays."""
        return self.result().figures(self.server, self.traffic)


def _replay(stored: StoredReplay, *, limited: bool) -> ReplayResult:
    by_schedule = limited and stored.offered_rate is not None
    arrivals = by_schedule and offered_limited(read_replay(stored.path))
    return ReplayResult(stored.figures, None, arrivals)


def cells_of(run: Run) -> dict[Key, dict[str, Cell]]:
    """Return what a run has: (server, traffic) → digest → cell. An empty cell says why it is."""
    found: dict[Key, dict[str, list[tuple[Launch, StoredReplay]]]] = {}
    for launch in run.launches:
        for stored in launch.replays:
            digests = found.setdefault((launch.server, stored.traffic), {})
            digests.setdefault(stored.digest, []).append((launch, stored))
    return {
        (server, traffic): {
            digest: _cell(run, server, traffic, digest, pairs) for digest, pairs in digests.items()
        }
        for (server, traffic), digests in sorted(found.items())
    }


def _cell(
    run: Run, server: str, traffic: str, digest: str, pairs: list[tuple[Launch, StoredReplay]]
) -> Cell:
    launches: dict[int, tuple[Launch, list[StoredReplay]]] = {}
    notes = []
    for launch, stored in pairs:
        where = f"{launch.campaign}, launch {launch.number}, replay {stored.number}"
        if stored.invalid:
            notes.append(f"{where} is INVALID: {stored.invalid}")
        elif launch.spec is None or launch.facts is None:
            notes.append(f"{where}: nothing is known of its server, launch.json is missing")
        else:
            launches.setdefault(id(launch), (launch, []))[1].append(stored)
    counted = tuple((launch, tuple(replays)) for launch, replays in launches.values())
    return Cell(run, server, traffic, digest, counted, tuple(notes))


def traffic_differences(before: Cell, after: Cell) -> str:
    """Return what differs between two traffics of one name and another digest."""
    first, second = _stored(before), _stored(after)
    if first is None or second is None:
        return "its recipe is not stored"
    was, now = (
        recipe_of(stored.spec) | {"counted_by": stored.counted_by} for stored in (first, second)
    )
    different = recipe_differences(was, now)
    return ", ".join(different) or "the recipe is the same: what the dataset reads has changed"


def _stored(cell: Cell) -> StoredTraffic | None:
    return next(
        (
            stored
            for stored in cell.run.traffics
            if (stored.spec.name, stored.digest) == (cell.traffic, cell.digest)
        ),
        None,
    )


def limited_result(cell: Cell) -> tuple[CampaignResult, str | None]:
    """Return a cell's result for judging, and what could not be told about its throughput."""
    try:
        return cell.result(limited=True), None
    except StoreError as error:
        return cell.result(), f"whether arrivals limited its throughput is not known: {error}"
