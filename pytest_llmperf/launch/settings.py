"""How a host launches servers, as the options say."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmperf import gpu
from pytest_llmperf.launch.lease import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_llmperf.model.server import ServerSpec


def _silent(_text: str) -> None:
    pass


@dataclass(frozen=True)
class LaunchSettings:
    """How this host launches. Times in seconds.

    ``executable``: the command to start, each engine's own where None. ``models``: the spec's
    model → where it lies here. ``base_url`` and ``api_key`` are engine attach's.
    ``stop_timeout``: how long a server may take to end on SIGTERM. ``gpus``: how many to
    lease; None: as many as the server needs, if its engine uses any and this host has any.
    ``lease_timeout``: how long to wait for them. ``on_progress`` gets a few words now and then.
    """

    executable: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    base_url: str | None = None
    startup_timeout: float = 600.0
    stop_timeout: float = 30.0
    gpus: int | None = None
    lease_timeout: float = 0.0
    api_key: str | None = field(default=None, repr=False)
    on_progress: Callable[[str], None] = _silent


@dataclass(frozen=True)
class Host:
    """What of the host a launch looks at: its GPUs, and where leases are kept."""

    gpus: Callable[[], tuple[gpu.Gpu, ...]] = gpu.gpus
    leases: Path = FOLDER


def model_here(spec: ServerSpec, models: Mapping[str, str]) -> str:
    """Return where the spec's model lies on this host, or its name."""
    if spec.model in models:
        return str(Path(models[spec.model]).expanduser().absolute())
    return str(Path(spec.model).expanduser()) if spec.model.startswith("~") else spec.model
