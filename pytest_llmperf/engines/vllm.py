"""Engine ``vllm``: ``vllm serve`` in an environment of its own."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmperf.engines import Command, Place
from pytest_llmperf.engines._vllm_log import read_facts, read_failure, read_phase
from pytest_llmperf.errors import SpecError, UsageError
from pytest_llmperf.model.arguments import argument
from pytest_llmperf.model.server import ServerSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_llmperf.model.launch import LaunchFacts

EXECUTABLE = "vllm"
REFUSED = {
    "--api-key": "every launch makes a key of its own",
    "--ssl-keyfile": "servers are measured over plain HTTP on the loopback interface",
    "--ssl-certfile": "servers are measured over plain HTTP on the loopback interface",
    "--uds": "servers are measured over HTTP on a port of the loopback interface",
}
"""Arguments that would keep a launch from reaching its own server, and why they are refused."""

DESCRIPTIONS = ("config.json", "params.json")
"""What a model's folder has at least one of: transformers' or Mistral's own."""


def vllm(
    name: str, model: str, *arguments: str, env: Mapping[str, str] | None = None
) -> ServerSpec:
    """Describe a vLLM server: the words after ``vllm serve MODEL``, as on its command line.

    ``env`` is added to the server's environment. Raise SpecError for a name that cannot be a
    folder and for arguments that are no strings.
    """
    return ServerSpec.of(name, "vllm", model, arguments, env)


@dataclass(frozen=True)
class Vllm:
    """Starts ``vllm serve`` and reads its log."""

    simulated: bool = False
    managed: bool = True
    uses_gpu: bool = True

    def check(self, spec: ServerSpec, place: Place) -> None:
        """Raise UsageError for an executable or a model's folder that is not there."""
        for flag, why in REFUSED.items():
            if argument(spec.arguments, flag) is not None:
                raise SpecError(f"server {spec.name!r}: take {flag} out of its arguments: {why}")
        _executable(spec, place)
        _check_model(spec, place.model)

    def command(self, spec: ServerSpec, place: Place) -> Command:
        """Return ``vllm serve MODEL`` with the spec's arguments, then host and port."""
        serve = ("serve", place.model, *spec.arguments)
        bound = ("--host", place.host, "--port", str(place.port))
        environment = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
        if place.api_key:
            environment["VLLM_API_KEY"] = place.api_key
        return Command((*_executable(spec, place), *serve, *bound), environment)

    def facts(self, log: str) -> LaunchFacts:
        """Read the memory budget and the start-up's phases."""
        return read_facts(log)

    def failure(self, log: str) -> str | None:
        """Return the root cause of a dead server."""
        return read_failure(log)

    def phase(self, log: str) -> str | None:
        """Return what a starting server is doing."""
        return read_phase(log)


def _executable(spec: ServerSpec, place: Place) -> tuple[str, ...]:
    """Return the command's first words: a path, a name on PATH, or either with arguments."""
    asked = place.executable or EXECUTABLE
    words = (asked,) if Path(asked).expanduser().exists() else tuple(shlex.split(asked))
    found = shutil.which(str(Path(words[0]).expanduser())) if words else None
    if found is None:
        where = f"{asked!r} is no executable" if place.executable else "no 'vllm' is on PATH"
        raise UsageError(
            f"server {spec.name!r} cannot start: {where}. Install vLLM in an environment of its "
            "own and name its executable with --llmperf-vllm PATH, or rehearse without it with "
            "--llmperf-engine sim"
        )
    return (found, *words[1:])


def _check_model(spec: ServerSpec, model: str) -> None:
    """Raise UsageError where ``model`` is written as a path and no model lies there."""
    if not model.startswith(("/", "./", "../", "~")):
        return
    folder = Path(model).expanduser()
    hint = f"name the folder on this runner with --llmperf-model '{spec.model}=PATH'"
    if folder.is_file() and folder.suffix == ".gguf":
        return
    if not folder.is_dir():
        raise UsageError(f"server {spec.name!r}: there is no model folder {model}; {hint}")
    if not any((folder / name).is_file() for name in DESCRIPTIONS):
        raise UsageError(
            f"server {spec.name!r}: {model} is no model folder, it has no config.json; {hint}"
        )


ENGINE = Vllm()
