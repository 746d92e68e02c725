"""What launches and replays took in earlier runs, newest first: what they will cost again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_llmperf.errors import StoreError
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.store._json import read_json
from pytest_llmperf.store._load import list_runs
from pytest_llmperf.store.recipes import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pytest_llmperf.model.server import ServerSpec
    from pytest_llmperf.model.traffic import TrafficSpec

MOST_RUNS = 20
"""What none of the last runs did says little about tonight, and looking costs time."""


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds, in the order in which they passed, and the id of the run that they are of."""

    seconds: tuple[float, ...]
    run: str


class PastRuns:
    """The last runs under a folder. Files that are damaged or not there are passed over."""

    def __init__(self, root: Path) -> None:
        runs = list_runs(root)[:MOST_RUNS] if root.is_dir() else []
        self._runs = [
            (run, Machine.of(header.get("machine") or {}))
            for run in runs
            for header in _readable([run / "header.json"])
        ]

    def startups(self, server: ServerSpec, machine: Machine | None) -> Took | None:
        """Return how long each start of the server took in the newest run that has any.

        ``machine`` None: on whichever. Another engine or model under the name is no such server.
        """
        for run in self._of(machine):
            found = []
            for file in run.glob(f"campaigns/*/{server.name}/launch-*/launch.json"):
                for data in _readable([file]):
                    seconds = (data.get("facts") or {}).get("startup_s")
                    if _same_server(data, server) and isinstance(seconds, int | float):
                        # Launches of one second are told apart by their number.
                        number = int(file.parent.name.removeprefix("launch-"))
                        found.append((str(data.get("ready_at")), number, seconds))
            if found:
                return Took(tuple(seconds for *_, seconds in sorted(found)), run.name)
        return None

    def replays(
        self, server: ServerSpec, traffic: TrafficSpec, machine: Machine | None
    ) -> Took | None:
        """Return how long each valid replay of the traffic took in the newest run with any."""
        for run in self._of(machine):
            digests = {
                data.get("digest")
                for data in _readable(run.glob(f"traffics/{traffic.name}-*.json"))
                if not differences(traffic, data.get("recipe") or {})
            }
            found = [
                (str(data.get("started_at")), seconds)
                for data in self._replays(run, server, traffic)
                if data.get("digest") in digests
                and isinstance(seconds := (data.get("health") or {}).get("wall_s"), int | float)
            ]
            if found:
                return Took(tuple(seconds for _, seconds in sorted(found)), run.name)
        return None

    def _replays(
        self, run: Path, server: ServerSpec, traffic: TrafficSpec
    ) -> Iterator[dict[str, Any]]:
        """Yield the traffic's valid replays of the server in one run."""
        for launch in run.glob(f"campaigns/*/{server.name}/launch-*"):
            (data, *_) = (*_readable([launch / "launch.json"]), {})
            if _same_server(data, server):
                for replay in _readable(launch.glob(f"{traffic.name}-*.json")):
                    if replay.get("traffic") == traffic.name and replay.get("invalid") is None:
                        yield replay

    def _of(self, machine: Machine | None) -> Iterator[Path]:
        for run, there in self._runs:
            if machine is None or not machine.differences(there):
                yield run


def _same_server(launch: dict[str, Any], server: ServerSpec) -> bool:
    written = launch.get("server") or {}
    return (written.get("engine"), written.get("model")) == (server.engine, server.model)


def _readable(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for file in sorted(files):
        try:
            yield read_json(file)
        except StoreError:
            continue
