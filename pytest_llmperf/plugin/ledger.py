"""Baselines and verdicts: what is compared with, what is kept, how a test ends."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.campaign import CampaignResult, CampaignSpec, Gate, describe
from pytest_llmperf.campaign.judge import simulated
from pytest_llmperf.campaign.message import differences
from pytest_llmperf.errors import LlmPerfError
from pytest_llmperf.launch import user_name
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.verdict import Noise, Status, Verdict
from pytest_llmperf.plugin import options
from pytest_llmperf.plugin.cases import Case
from pytest_llmperf.store.baselines import BaselineStore, NoBaseline, traffic_record
from pytest_llmperf.store.streak import nights_in_a_row

if TYPE_CHECKING:
    from pytest_llmperf.plugin.checks import Check
    from pytest_llmperf.plugin.session import Session

NEVER_ACCEPTED = (Status.INVALID, Status.SLO_VIOLATED, Status.REGRESSED)
NOT_ACCEPTED = "not accepted"
PATIENCE = 3
"""Inconclusive nights in a row after which a skip becomes a failure."""

Cell = tuple[ServerSpec, str]
"""One server on one traffic: what has a baseline, however many tests judge it."""


@dataclass
class _Acceptance:
    """Whether tonight may become a night of a cell's baseline: every test has a say."""

    case: Case
    result: CampaignResult
    status: Status
    wanted: bool = False
    refused: bool = False


class Ledger:
    """Keeps a session's verdicts and the baselines that they are reached against."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._baselines = BaselineStore(session.option("baselines"))
        self._read: dict[Cell, Baseline | NoBaseline] = {}
        self._acceptances: dict[Cell, _Acceptance] = {}

    def gate(self, case: Case) -> Gate:
        """Return the case's gate with the session's α."""
        return Gate(case.gate.figures, case.gate.tolerances, self._session.alpha)

    def _machine_of(self, case: Case) -> Machine:
        result = self._session.result_of(case)
        pretended = result is not None and simulated(result, case.server)
        return self._session.machine(case.server, simulated=pretended)

    def baseline(self, case: Case, result: CampaignResult) -> Baseline | NoBaseline:
        """Return what was stored for this case before this session, or why nothing comparable.

        Read once: what this session accepts must not judge this session. Raise BaselineError
        for a file that cannot be read.
        """
        cell = (case.server, case.traffic_name)
        if cell not in self._read:
            traffic = result.traffics[case.traffic_name]
            self._read[cell] = self._baselines.find(
                self._machine_of(case),
                case.server.name,
                case.traffic_name,
                traffic.digest,
                traffic_record=traffic_record(traffic),
            )
        return self._read[cell]

    def noise(self, case: Case, figure: str) -> Noise | None:
        """Return this machine's pooled noise of a figure."""
        return self._baselines.noise(self._machine_of(case), figure)

    def record(
        self,
        verdict: Verdict,
        case: Case,
        baseline: Baseline | NoBaseline | None = None,
        slos: Mapping[str, str] | None = None,
    ) -> str:
        """Store a verdict with all it was reached from; return its message."""
        stored = baseline if isinstance(baseline, Baseline) else None
        changed = differences(case.server, stored, self._engine_version(case)) if stored else []
        run = self._session.folder.path
        places = {
            "log": self._log_of(case),
            "run": run,
            "report": self._session.report_folder / f"{run.name}.html",
        }
        message = describe(verdict, changed=changed, places=places)
        inputs = {
            "alpha": self._session.alpha,
            "tolerances": case.gate.tolerances,
            "slos": slos or {},
            "noise": self._noises(verdict, case) if stored else {},
        }
        self._session.folder.write_verdict(verdict, message, baseline=stored, inputs=inputs)
        self._note_status(verdict, case)
        return message

    def _noises(self, verdict: Verdict, case: Case) -> dict[str, Noise]:
        """Return the machine's noise of each figure judged, as it is tonight."""
        judged = {f.figure for f in verdict.findings if f.kind == "baseline"}
        found = {name: self.noise(case, name) for name in sorted(judged)}
        return {name: noise for name, noise in found.items() if noise is not None}

    def _note_status(self, verdict: Verdict, case: Case) -> None:
        result = self._session.result_of(case)
        if verdict.against is not None or result is None:
            return
        cell = (case.server, case.traffic_name)
        known = self._acceptances.setdefault(cell, _Acceptance(case, result, verdict.status))
        known.status = Status.worst([known.status, verdict.status])
        known.refused = known.refused or verdict.status in NEVER_ACCEPTED

    def _log_of(self, case: Case) -> Path | str:
        label = CampaignSpec(case.servers, ()).label
        logs = (self._session.folder.path / "campaigns" / label / case.server.name).glob("*/*.log")
        return max(logs, key=lambda log: log.stat().st_mtime, default="none: nothing was started")

    def _engine_version(self, case: Case) -> str | None:
        launches = self._session.launches_of(case)
        return next((launch.facts.engine_version for launch in launches), None)

    def conclude(self, check: Check) -> None:
        """Store a test's verdict, remember whether it may be accepted, end it as it says."""
        verdict = check.verdict
        message = self.record(verdict, check.case, check.baseline, check.slos)
        accepting = self._may_be_accepted(check)
        status = verdict.status
        if status in NEVER_ACCEPTED:
            pytest.fail(message, pytrace=False)
        if status is Status.NO_BASELINE and not accepting:
            if self._session.option("strict"):
                pytest.fail(message, pytrace=False)
            pytest.skip(message)
        if status is Status.INCONCLUSIVE:
            self._inconclusive(verdict, message)

    def _may_be_accepted(self, check: Check) -> bool:
        cell = (check.case.server, check.case.traffic_name)
        known = self._acceptances.get(cell)
        if known is None or check.baseline is None:
            return False
        known.wanted = bool(self._session.option("accept"))
        return known.wanted and not known.refused

    def _inconclusive(self, verdict: Verdict, message: str) -> None:
        choice = self._session.option("inconclusive") or ("fail" if verdict.against else "skip")
        if choice == "fail":
            pytest.fail(message, pytrace=False)
        if choice == "skip":
            nights = nights_in_a_row(verdict, self._session.folder.path)
            if nights >= PATIENCE:
                told = f"inconclusive for {nights} nights in a row: nothing guards this"
                pytest.fail(f"{message}\n  {told}", pytrace=False)
            pytest.skip(message)

    def accept_all(self) -> None:
        """Add tonight to the baseline of every cell that all its tests allow."""
        for known in self._acceptances.values():
            if known.wanted and not known.refused:
                self._accept(known)

    def _accept(self, known: _Acceptance) -> None:
        case, folder = known.case, self._session.folder
        now = datetime.now(UTC).astimezone()
        night = Night(
            date=now.date().isoformat(),
            host=socket.gethostname(),
            figures=known.result.figures(case.server.name, case.traffic_name),
            provenance={
                "accepted_at": now.isoformat(timespec="seconds"),
                "accepted_by": user_name(),
                "engine_version": self._engine_version(case),
                "run": folder.id,
                "status": known.status.value,
                **options.versions(),
            },
        )
        traffic = known.result.traffics[case.traffic_name]
        try:
            path = self._baselines.accept(self._machine_of(case), case.server, traffic, night)
        except (LlmPerfError, OSError) as error:
            folder.note(f"{NOT_ACCEPTED}: {case.id}: {error}")
        else:
            folder.write_acceptance(case.server.name, case.traffic_name, path)
