"""The folder of a run: enough to recompute every figure and verdict later without a GPU.

::

    .llmperf/runs/<id>/
        header.json  run.json                   run.json is assembled from the rest at the end
        traffics/<name>-<digest>.json
        campaigns/<campaign>/<server>/launch-<n>/
            launch.json  server.log  <traffic>.answers.json
            <traffic>-<n>.json  .parquet  .metrics-before.txt  .metrics-after.txt
        verdicts/<server>-<traffic>-….json  notes/  accepted/

Every piece is a file of its own, written at once and whole, by whichever process has it: a run
that fails half-way keeps what it has, and xdist workers share one folder without locks.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_llmperf.model.noise import night_mean
from pytest_llmperf.model.server import check_name
from pytest_llmperf.store._json import plain, write_json
from pytest_llmperf.store._launch_folder import LaunchFolder, now
from pytest_llmperf.store._load import list_runs, load_run, read_replay
from pytest_llmperf.store._recipe import recipe_of
from pytest_llmperf.store._run import (
    Launch,
    NightMean,
    Run,
    RunHeader,
    StoredReplay,
    StoredTraffic,
    StoredVerdict,
)
from pytest_llmperf.store._secrets import masked_arguments, masked_mapping, masked_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_llmperf.model.baseline import Baseline, Night
    from pytest_llmperf.model.traffic import Traffic
    from pytest_llmperf.model.verdict import Verdict

__all__ = [
    "Launch",
    "LaunchFolder",
    "NightMean",
    "Run",
    "RunFolder",
    "RunHeader",
    "StoredReplay",
    "StoredTraffic",
    "StoredVerdict",
    "list_runs",
    "load_run",
    "masked_text",
    "read_replay",
    "verdict_file",
]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run on disk, for writing. Any number of processes may hold the same one."""

    path: Path

    @classmethod
    def create(cls, root: Path, run_id: str | None = None) -> RunFolder:
        """Make ``root/run_id``, or join it where it is there.

        Without an id: ``20261130-101500-3f2a``, the time in UTC and four random digits.
        Raises SpecError for an id that cannot be a folder's name.
        """
        started = datetime.now(UTC)
        name = run_id or f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        check_name("run", name)
        path = root.resolve() / name
        path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    @property
    def id(self) -> str:
        """The run's id, which is its folder's name."""
        return self.path.name

    def write_header(self, header: RunHeader) -> None:
        """Say what this run is; of several processes that do so, the first is kept."""
        file = self.path / "header.json"
        if file.is_file():
            return
        shown = replace(
            header,
            options=masked_mapping(header.options),
            versions=masked_mapping(header.versions),
            command=" ".join(masked_arguments(header.command.split(" "))),
        )
        write_json(file, plain(shown))
        write_json(self.path / "run.json", {"status": "running", "header": shown})

    def write_traffic(self, traffic: Traffic) -> None:
        """Keep the recipe, digest and lengths of ``traffic``; its prompts are not stored.

        One recipe has several digests where servers count tokens differently.
        """
        prompts = [request.prompt for request in traffic.requests]
        data = {
            "recipe": recipe_of(traffic.spec),
            "digest": traffic.digest,
            "counted_by": traffic.counted_by,
            "notes": traffic.notes,
            "count": len(prompts),
            "offered_rate": traffic.offered_rate,
            "prompt_tokens": [prompt.prompt_tokens for prompt in prompts],
            "output_tokens": [prompt.output_tokens for prompt in prompts],
        }
        name = f"{traffic.spec.name}-{traffic.digest}.json"
        write_json(self.path / "traffics" / name, data, compact=True)

    def launch(self, campaign: str, server: str, number: int) -> LaunchFolder:
        """Make the folder of a server's ``number``-th launch (from 1) in a campaign.

        Raises SpecError for a campaign or server that cannot be a folder's name.
        """
        check_name("campaign", campaign)
        check_name("server", server)
        path = self.path / "campaigns" / campaign / server / f"launch-{number}"
        path.mkdir(parents=True, exist_ok=True)
        return LaunchFolder(path)

    def write_verdict(
        self,
        verdict: Verdict,
        message: str,
        *,
        baseline: Baseline | None = None,
        inputs: Mapping[str, object] | None = None,
    ) -> None:
        """Keep a test's verdict and message, and all that it takes to judge again.

        Of ``baseline`` the nights × launches × replays of the figures judged, with their means;
        of everything else ``inputs`` (plain values: alpha, tolerances, limits, pooled noise).
        A test judged anew takes the place of its earlier verdict.
        """
        figures = {finding.figure for finding in verdict.findings}
        accepted = _accepted(baseline, figures) if baseline else {}
        data = {
            "verdict": verdict,
            "message": masked_text(message),
            "inputs": masked_mapping(inputs or {}),
            "nights": {
                figure: [NightMean(n.date, n.host, night_mean(n.figures[figure])) for n in nights]
                for figure, nights in accepted.items()
            },
            "accepted": {
                figure: [night.figures[figure] for night in nights]
                for figure, nights in accepted.items()
            },
        }
        write_json(verdict_file(self.path, verdict), data)

    def note(self, text: str) -> None:
        """Keep a line about something missing or gone wrong; notes are read in this order."""
        self._add("notes", {"text": masked_text(text)})

    def write_acceptance(self, server: str, traffic: str, path: Path) -> None:
        """Keep that a night of this run went into the baseline file ``path``."""
        self._add("accepted", {"server": server, "traffic": traffic, "path": str(path)})

    def _add(self, folder: str, entry: Mapping[str, str]) -> None:
        # All processes of a run are on one host, whose monotonic clock never steps back.
        name = f"{time.monotonic_ns():020d}-{os.getpid()}.json"
        write_json(self.path / folder / name, {"at": now(), **entry})

    def finish(self, outcome: str) -> None:
        """Assemble ``run.json``. The last process that finishes a shared run has the word.

        Raises StoreError where a piece is damaged, or no header was written.
        """
        run = load_run(self.path)
        data = {
            "status": "finished",
            "outcome": outcome,
            "finished_at": now(),
            "header": run.header,
            "traffics": [
                {"name": t.spec.name, "digest": t.digest, "count": t.count} for t in run.traffics
            ],
            "launches": [_launch_summary(self.path, launch) for launch in run.launches],
            "verdicts": [
                {**plain(stored.verdict), "status": stored.verdict.status}
                for stored in run.verdicts
            ],
            "accepted": run.accepted,
            "notes": run.notes,
            "missing": run.missing,
        }
        write_json(self.path / "run.json", data)


def _accepted(baseline: Baseline, figures: set[str]) -> dict[str, list[Night]]:
    """Return, oldest first, the nights that have each of the figures."""
    nights = {f: [n for n in baseline.nights if n.figures.get(f)] for f in sorted(figures)}
    return {figure: of for figure, of in nights.items() if of}


def _launch_summary(root: Path, launch: Launch) -> dict[str, object]:
    return {
        "folder": launch.path.relative_to(root).as_posix(),
        "facts": launch.facts,
        "replays": [
            {
                "traffic": stored.traffic,
                "number": stored.number,
                "invalid": stored.invalid,
                "figures": stored.figures,
            }
            for stored in launch.replays
        ],
    }


def verdict_file(run: Path, verdict: Verdict) -> Path:
    """Return where the run in that folder keeps the verdict of the same test."""
    return run / "verdicts" / f"{_slug(verdict)}.json"


def _slug(verdict: Verdict) -> str:
    """Return a file name that a person can read and no other test has."""
    identity = "\0".join((verdict.test, verdict.server, verdict.traffic, verdict.against or ""))
    words = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{verdict.server}-{verdict.traffic}").strip("-.")
    return f"{words[:80]}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
