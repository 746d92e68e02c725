"""Baselines and verdicts: what is compared with, what is kept, how a test ends."""

from __future__ import annotations

import getpass
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.campaign import CampaignResult, Gate, describe
from pytest_llmperf.campaign.message import differences
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import LlmPerfError
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.verdict import Noise, Status, Verdict
from pytest_llmperf.plugin import options
from pytest_llmperf.plugin.cases import Case
from pytest_llmperf.store.baselines import BaselineStore, NoBaseline, traffic_record
from pytest_llmperf.store.streak import nights_in_a_row

if TYPE_CHECKING:
    from pytest_llmperf.plugin.session import Session

NEVER_ACCEPTED = (Status.INVALID, Status.SLO_VIOLATED, Status.REGRESSED)
PATIENCE = 3
"""Inconclusive nights in a row after which a skip becomes a failure."""


class Ledger:
    """Keeps a session's verdicts and the baselines that they are reached against."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._baselines = BaselineStore(session.option("baselines"))

    def gate(self, case: Case) -> Gate:
        """Return the case's gate with the session's α."""
        return Gate(case.gate.figures, case.gate.tolerances, self._session.alpha)

    def _machine_of(self, case: Case) -> Machine:
        return self._session.machine(simulated=ENGINES[case.server.engine].simulated)

    def baseline(self, case: Case, result: CampaignResult) -> Baseline | NoBaseline:
        """Return what is stored for this case, or why nothing comparable is.

        Raise BaselineError for a file that cannot be read.
        """
        traffic = result.traffics[case.traffic_name]
        return self._baselines.find(
            self._machine_of(case),
            case.server.name,
            case.traffic_name,
            traffic.digest,
            traffic_record=traffic_record(traffic),
        )

    def noise(self, case: Case, figure: str) -> Noise | None:
        """Return this machine's pooled noise of a figure."""
        return self._baselines.noise(self._machine_of(case), figure)

    def record(
        self, verdict: Verdict, case: Case, baseline: Baseline | NoBaseline | None = None
    ) -> str:
        """Store a verdict and return its message."""
        stored = baseline if isinstance(baseline, Baseline) else None
        changed = differences(case.server, stored, self._engine_version(case)) if stored else []
        places = {"log": self._log_of(case), "run": self._session.folder.path}
        message = describe(verdict, changed=changed, places=places)
        self._session.folder.write_verdict(verdict, message, baseline=stored)
        return message

    def _log_of(self, case: Case) -> Path | str:
        launches = self._session.launches_of(case)
        return launches[-1].log if launches else "none: no launch was ever ready"

    def _engine_version(self, case: Case) -> str | None:
        launches = self._session.launches_of(case)
        return next((launch.facts.engine_version for launch in launches), None)

    def conclude(
        self,
        verdict: Verdict,
        case: Case,
        result: CampaignResult,
        baseline: Baseline | NoBaseline | None,
    ) -> None:
        """Store the verdict, accept it if asked, and end the test as its status says.

        ``baseline``: what it was judged against; None where that was not asked for, and then
        nothing is accepted either.
        """
        message = self.record(verdict, case, baseline)
        accepted = baseline is not None and self._accept(verdict, case, result)
        status = verdict.status
        if status in (Status.SLO_VIOLATED, Status.REGRESSED):
            pytest.fail(message, pytrace=False)
        if status is Status.NO_BASELINE and not accepted:
            if self._session.option("strict"):
                pytest.fail(message, pytrace=False)
            pytest.skip(message)
        if status is Status.INCONCLUSIVE:
            self._inconclusive(verdict, message)

    def _inconclusive(self, verdict: Verdict, message: str) -> None:
        choice = self._session.option("inconclusive")
        if choice == "fail":
            pytest.fail(message, pytrace=False)
        if choice == "skip":
            nights = nights_in_a_row(verdict, self._session.folder.path)
            if nights >= PATIENCE:
                told = f"inconclusive for {nights} nights in a row: nothing guards this"
                pytest.fail(f"{message}\n  {told}", pytrace=False)
            pytest.skip(message)

    def _accept(self, verdict: Verdict, case: Case, result: CampaignResult) -> bool:
        if not self._session.option("accept") or verdict.status in NEVER_ACCEPTED:
            return False
        now = datetime.now(UTC).astimezone()
        night = Night(
            date=now.date().isoformat(),
            host=socket.gethostname(),
            figures=result.figures(case.server.name, case.traffic_name),
            provenance={
                "accepted_at": now.isoformat(timespec="seconds"),
                "accepted_by": getpass.getuser(),
                "engine_version": self._engine_version(case),
                "run": self._session.folder.id,
                "status": verdict.status.value,
                **options.versions(),
            },
        )
        traffic = result.traffics[case.traffic_name]
        try:
            path = self._baselines.accept(self._machine_of(case), case.server, traffic, night)
        except LlmPerfError as error:
            pytest.fail(str(error), pytrace=False)
        self._session.terminal.accepted.append(f"{case.id} → {path}")
        return True
