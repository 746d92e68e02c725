"""Engine ``sim``: a simulated server, for rehearsals without a GPU and for this project's tests.

A process of its own with vLLM's HTTP surface, metrics and log, over a model of an engine. What
is measured against it is SIMULATED wherever it is shown, and never meets a real baseline.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmperf.engines import Command, Place
from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.server import ServerSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_llmperf.model.launch import LaunchFacts


def sim(name: str, model: str, *arguments: str, env: Mapping[str, str] | None = None) -> ServerSpec:
    """Describe a simulated server: vLLM's arguments, and ``--sim-*`` and ``--slowdown``.

    ``env`` is added to the server's environment. Raise SpecError for a name that cannot be a
    folder and for arguments that are no strings.
    """
    return ServerSpec.of(name, "sim", model, arguments, env)


@dataclass(frozen=True)
class Sim:
    """Starts this package as a process. Its log is vLLM's, and so is its reading."""

    simulated: bool = True
    managed: bool = True
    uses_gpu: bool = False

    def check(self, spec: ServerSpec, place: Place) -> None:
        """Raise SpecError for arguments that the process would refuse, or a model not there."""
        from pytest_llmperf.engines.sim.options import ArgumentsError, parse
        from pytest_llmperf.engines.sim.server import model_exists

        try:
            options = parse((place.model, *spec.arguments), {})
        except ArgumentsError as error:
            raise SpecError(f"server {spec.name!r} (engine sim): {error}") from None
        except SystemExit:
            raise SpecError(f"server {spec.name!r}: --help starts no server") from None
        if options.api_keys:
            raise SpecError(
                f"server {spec.name!r}: take --api-key out of its arguments: every launch makes a "
                "key of its own"
            )
        if not model_exists(place.model):
            raise SpecError(
                f"server {spec.name!r}: there is no model folder {place.model}; name the folder "
                f"on this runner with --llmperf-model '{spec.model}=PATH'"
            )

    def command(self, spec: ServerSpec, place: Place) -> Command:
        """Return the command that serves ``spec``.

        ``place.executable`` has no part in it: with this engine, a suite written for any vLLM
        is rehearsed where there is none.
        """
        module = (sys.executable, "-P", "-m", "pytest_llmperf.engines.sim")
        bound = ("--host", place.host, "--port", str(place.port))
        environment = {"VLLM_API_KEY": place.api_key} if place.api_key else {}
        return Command((*module, place.model, *spec.arguments, *bound), environment)

    def facts(self, log: str) -> LaunchFacts:
        """Read the memory budget and the start-up's phases, as of vLLM's log."""
        from pytest_llmperf.engines._vllm_log import read_facts

        return read_facts(log)

    def failure(self, log: str) -> str | None:
        """Return why the server died."""
        from pytest_llmperf.engines._vllm_log import read_failure

        return read_failure(log)

    def phase(self, log: str) -> str | None:
        """Return what a starting server is doing."""
        from pytest_llmperf.engines._vllm_log import read_phase

        return read_phase(log)


ENGINE = Sim()
