"""The folder of one launch in a run's: what was started, what it answered, its replays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_llmperf.store._atomic import write_atomically
from pytest_llmperf.store._json import plain, write_json
from pytest_llmperf.store._requests import requests_to_parquet
from pytest_llmperf.store._secrets import masked_arguments, masked_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_llmperf.model.answers import Answers
    from pytest_llmperf.model.launch import LaunchFacts
    from pytest_llmperf.model.record import Replay
    from pytest_llmperf.model.server import ServerSpec
    from pytest_llmperf.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class LaunchFolder:
    """One launch on disk, for writing. The launcher keeps the server's log in it."""

    path: Path

    @property
    def log(self) -> Path:
        """Where the server's output goes."""
        return self.path / "server.log"

    def write_facts(self, spec: ServerSpec, facts: LaunchFacts, executable: str | None) -> None:
        """Keep what was started and what it told about itself."""
        server = plain(spec) | {
            "arguments": masked_arguments(spec.arguments),
            "environment": masked_pairs(spec.environment),
        }
        data = {"server": server, "executable": executable, "facts": facts, "ready_at": now()}
        write_json(self.path / "launch.json", data)

    def write_answers(self, traffic: str, answers: Answers) -> None:
        """Keep what this launch answered to the first prompts of ``traffic``."""
        data = {
            "traffic": traffic,
            "random_weights": answers.random_weights,
            "error": answers.error,
            "nonsense": answers.nonsense,
            "answers": [{"digest": one.digest, **plain(one)} for one in answers.answers],
        }
        write_json(self.path / f"{traffic}.answers.json", data)

    def write_replay(
        self,
        traffic: Traffic,
        number: int,
        replay: Replay,
        figures: Mapping[str, float],
        *,
        invalid: str | None = None,
        metrics_before: str | None = None,
        metrics_after: str | None = None,
    ) -> None:
        """Keep the ``number``-th replay (from 1) of ``traffic``: requests, figures, metrics.

        The JSON comes last: where it is there, the replay is whole.
        """
        stem = self.path / f"{traffic.spec.name}-{number}"
        for when, text in (("before", metrics_before), ("after", metrics_after)):
            if text is not None:
                write_atomically(stem.with_name(f"{stem.name}.metrics-{when}.txt"), text)
        requests = stem.with_name(f"{stem.name}.parquet")
        write_atomically(requests, requests_to_parquet(replay.records))
        data = {
            "traffic": replay.traffic,
            "digest": replay.digest,
            "number": number,
            "started_at": replay.started_at,
            "invalid": invalid,
            "figures": figures,
            "requests": len(replay.records),
            "failed": sum(record.error is not None for record in replay.records),
            "offered_rate": replay.offered_rate,
            "max_concurrency": replay.max_concurrency,
            "clock": replay.clock,
            "health": replay.health,
            "counters": replay.counters,
        }
        write_json(stem.with_name(f"{stem.name}.json"), data)


def now() -> str:
    """Return the time in UTC as the files of a run have it: ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
