"""What a run folder holds, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_llmperf.model.answers import Answers
    from pytest_llmperf.model.baseline import Values
    from pytest_llmperf.model.launch import LaunchFacts
    from pytest_llmperf.model.machine import Machine
    from pytest_llmperf.model.record import ClientHealth
    from pytest_llmperf.model.server import ServerSpec
    from pytest_llmperf.model.traffic import TrafficSpec
    from pytest_llmperf.model.verdict import Verdict


@dataclass(frozen=True)
class RunHeader:
    """Who, where, when and with what. ``started_at``: ISO 8601 with its zone."""

    id: str
    started_at: str
    machine: Machine
    versions: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    simulated: bool = False
    command: str = ""


@dataclass(frozen=True)
class StoredTraffic:
    """A recipe with its requests' lengths in tokens (as ``counted_by`` counts them), by request."""

    spec: TrafficSpec
    digest: str
    counted_by: str
    notes: tuple[str, ...]
    offered_rate: float | None
    prompt_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many requests there are."""
        return len(self.prompt_tokens)


@dataclass(frozen=True)
class StoredReplay:
    """One replay without its requests: ``read_replay(path)`` gives those.

    ``failed``: requests with an error. ``invalid``: why the replay cannot be trusted, or None.
    """

    path: Path
    traffic: str
    digest: str
    number: int
    started_at: str
    figures: Mapping[str, float]
    invalid: str | None
    requests: int
    failed: int
    offered_rate: float | None
    max_concurrency: int | None
    clock: Literal["kernel", "process"]
    health: ClientHealth
    counters: Mapping[str, float] | None = None
    metrics_before: Path | None = None
    metrics_after: Path | None = None


@dataclass(frozen=True)
class Launch:
    """One start of a server. ``spec`` and ``facts`` are None where it never became ready.

    ``answers``: traffic → what it answered to that traffic's first prompts.
    """

    path: Path
    campaign: str
    server: str
    number: int
    spec: ServerSpec | None
    facts: LaunchFacts | None
    executable: str | None
    log: Path | None
    replays: tuple[StoredReplay, ...]
    answers: Mapping[str, Answers] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NightMean:
    """What one accepted night gave for a figure: its mean as the gate takes it, of logarithms."""

    date: str
    host: str
    mean: float


@dataclass(frozen=True)
class StoredVerdict:
    """A verdict, the message it was told with, and what it was judged by.

    ``nights``: figure → its accepted nights, oldest first; empty where nothing was stored.
    ``accepted``: figure → the same nights × launches × replays. ``inputs``: what else the gate
    was given, as JSON has it (an infinite number is the text that ``float`` reads).
    """

    verdict: Verdict
    message: str
    nights: Mapping[str, tuple[NightMean, ...]] = field(default_factory=dict)
    accepted: Mapping[str, tuple[Values, ...]] = field(default_factory=dict)
    inputs: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """Everything a run folder holds. ``missing`` says what one would expect and is not there.

    ``status`` stays ``running`` where a run ended without saying so; ``outcome`` is what it
    said at its end. ``accepted``: a line for each night that went into a baseline.
    """

    path: Path
    header: RunHeader
    status: Literal["running", "finished"]
    outcome: str | None
    traffics: tuple[StoredTraffic, ...]
    launches: tuple[Launch, ...]
    verdicts: tuple[StoredVerdict, ...]
    notes: tuple[str, ...]
    missing: tuple[str, ...]
    accepted: tuple[str, ...] = ()
