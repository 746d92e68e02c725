"""How a host launches servers, as the options say."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmperf import gpu
from pytest_llmperf.launch.lease import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_llmperf.model.server import ServerSpec


def _silent(_text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Keep:
    """Where servers that stay are told of, and how many seconds they stay without a session."""

    folder: Path
    idle: float = 1800.0


@dataclass(frozen=True)
class LaunchSettings:
    """How this host launches. Times in seconds.

    ``executable``: the command to start, each engine's own where None. ``models``: the spec's
    model → where it lies here. ``base_url`` and ``api_key`` are engine attach's.
    ``stop_timeout``: how long a server may take to end on SIGTERM, and then, if that is more than
    a minute, to free its GPU memory. ``keep``: leave servers running, and take those that run
    as asked; such a server's launches are none. ``gpus``: how many to lease; None: as many as
    the server needs, if its engine uses any and this host has any. ``lease_timeout``: how long
    to wait for them. ``on_progress`` gets a few words now and then.
    """

    executable: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    base_url: str | None = None
    startup_timeout: float = 600.0
    stop_timeout: float = 30.0
    gpus: int | None = None
    lease_timeout: float = 0.0
    keep: Keep | None = None
    api_key: str | None = field(default=None, repr=False)
    on_progress: Callable[[str], None] = _silent


@dataclass(frozen=True)
class Host:
    """What of the host a launch looks at: its GPUs, and where leases are kept."""

    gpus: Callable[[], tuple[gpu.Gpu, ...]] = gpu.gpus
    leases: Path = FOLDER


def arguments_here(spec: ServerSpec, models: Mapping[str, str]) -> ServerSpec:
    """Return the spec with every mapped model in its arguments where it lies on this host.

    A draft model's name is inside the JSON of ``--speculative-config``; a tokenizer's is a word
    of its own.
    """
    return replace(spec, arguments=tuple(_here(word, models) for word in spec.arguments))


def _here(word: str, models: Mapping[str, str]) -> str:
    flag, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    if value in models:
        return flag + equals + _path(models[value])
    try:
        config = json.loads(value) if value.startswith("{") else None
    except ValueError:
        return word  # the server will say what is wrong with it
    if not isinstance(config, dict) or config.get("model") not in models:
        return word
    return flag + equals + json.dumps({**config, "model": _path(models[config["model"]])})


def model_here(spec: ServerSpec, models: Mapping[str, str]) -> str:
    """Return where the spec's model lies on this host, or its name."""
    if spec.model in models:
        return _path(models[spec.model])
    return str(Path(spec.model).expanduser()) if spec.model.startswith("~") else spec.model


def _path(folder: str) -> str:
    return str(Path(folder).expanduser().absolute())
