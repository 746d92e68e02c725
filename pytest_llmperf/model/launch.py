"""What one launch of a server told about itself, and where a replay can reach it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LaunchFacts:
    """The memory budget and the start-up, from the log. What it does not say is None.

    ``weights_gib``, ``kv_gib`` and ``graphs_gib`` are per GPU. ``phases`` maps a phase of
    the start-up to its seconds. ``cold`` is True where the launch compiled.
    """

    engine_version: str | None = None
    weights_gib: float | None = None
    kv_gib: float | None = None
    kv_tokens: int | None = None
    graphs_gib: float | None = None
    max_concurrency: float | None = None
    max_model_len: int | None = None
    startup_s: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    cold: bool | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go: plain HTTP to ``host:port``, ``prefix`` before ``/v1/…``.

    ``api_key`` is never shown in a representation.
    """

    host: str
    port: int
    model: str
    prefix: str = ""
    api_key: str | None = field(default=None, repr=False)

    @property
    def base_url(self) -> str:
        """The URL that users know the server by."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.prefix}"
