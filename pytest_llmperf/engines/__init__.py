"""Engines: the kinds of server, one module each, seen as its ``ENGINE``.

A module also has a constructor named like itself, which a suite calls for a ServerSpec:
``vllm("qwen3-14b", "Qwen/Qwen3-14B", "--max-model-len", "8192")``. An engine knows a command
line and a log; starting, watching and stopping are the launch's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pytest_llmperf.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_llmperf.model.launch import LaunchFacts
    from pytest_llmperf.model.server import ServerSpec


@dataclass(frozen=True, slots=True)
class Place:
    """What one launch of a server is given: its executable, model, port and key.

    ``executable`` is None where the engine's own default is meant. ``model`` is the folder
    that the runner has for the spec's model, or the spec's own name. ``api_key`` is never
    shown in a representation.
    """

    executable: str | None
    model: str
    host: str
    port: int
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. ``environment`` is added to the launching process's own."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


class Engine(Protocol):
    """A kind of server."""

    @property
    def simulated(self) -> bool:
        """Whether its results carry SIMULATED and never meet a real baseline."""

    @property
    def managed(self) -> bool:
        """Whether a launch starts and stops it (``attach``: it runs already)."""

    @property
    def uses_gpu(self) -> bool:
        """Whether it needs the GPUs that its arguments ask for."""

    def check(self, spec: ServerSpec, place: Place) -> None:
        """Raise UsageError for what would fail anyway, before anything starts.

        The executable that is missing, the model's folder that is not one.
        """

    def command(self, spec: ServerSpec, place: Place) -> Command:
        """Return the command that serves ``spec`` on ``place``'s host and port."""

    def facts(self, log: str) -> LaunchFacts:
        """Read the memory budget and the start-up's phases. What is not said is None."""

    def failure(self, log: str) -> str | None:
        """Return the line(s) of a dead server's log that say why, None where it is empty."""


@runtime_checkable
class TellsPhase(Protocol):
    """What an engine may also do: say what its starting server is doing, for the progress."""

    def phase(self, log: str) -> str | None:
        """Return a few words such as ``loading weights``, None where the log says nothing."""


ENGINES: Catalog[Engine] = Catalog("engine", "pytest_llmperf.engines")
