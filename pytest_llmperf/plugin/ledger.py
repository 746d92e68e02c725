"""Baselines and verdicts: what is compared with, what is kept, how a test ends."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmperf.campaign import CampaignResult, CampaignSpec, Gate, describe
from pytest_llmperf.campaign.answers import answers_for_night
from pytest_llmperf.campaign.caveats import simulated
from pytest_llmperf.campaign.message import differences
from pytest_llmperf.campaign.ratios import ratios_of, undecided_pairs
from pytest_llmperf.errors import LlmPerfError
from pytest_llmperf.launch import user_name
from pytest_llmperf.model.baseline import Baseline, Night, Values
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.verdict import Noise, Status, Verdict
from pytest_llmperf.plugin import options
from pytest_llmperf.plugin.cases import Case
from pytest_llmperf.store.baselines import AGAINST, BaselineStore, NoBaseline, traffic_record
from pytest_llmperf.store.streak import nights_in_a_row

if TYPE_CHECKING:
    from pytest_llmperf.plugin.checks import Check
    from pytest_llmperf.plugin.session import Session

NEVER_ACCEPTED = (Status.INVALID, Status.SLO_VIOLATED, Status.REGRESSED)
NOT_ACCEPTED = "not accepted"
PATIENCE = 3
"""Inconclusive nights in a row after which a skip becomes a failure."""

Cell = tuple[tuple[ServerSpec, ...], str]
"""A server, or a pair, on one traffic: what has a baseline, however many tests judge it."""


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
        return replace(case.gate, alpha=self._session.alpha)

    def _machine_of(self, case: Case) -> Machine:
        result = self._session.result_of(case)
        pretended = result is not None and any(simulated(result, s) for s in case.servers)
        return self._session.machine(case.server, simulated=pretended)

    def baseline(self, case: Case, result: CampaignResult) -> Baseline | NoBaseline:
        """Return what was stored for this case before this session, or why nothing comparable.

        Read once: what this session accepts must not judge this session. Raise BaselineError
        for a file that cannot be read.
        """
        cell = (case.servers, case.traffic_name)
        if cell not in self._read:
            traffic = result.traffics[case.traffic_name]
            self._read[cell] = self._baselines.find(
                self._machine_of(case),
                case.server.name,
                case.traffic_name,
                traffic.digest,
                against=case.servers[0].name if _is_pair(case) else None,
                traffic_record=traffic_record(traffic),
            )
        return self._read[cell]

    def noise(self, case: Case, figure: str) -> Noise | None:
        """Return this machine's pooled noise of a figure; for a pair that of its ratios."""
        return self._baselines.noise(self._machine_of(case), figure, ratios=_is_pair(case))

    def record(
        self,
        verdict: Verdict,
        case: Case,
        baseline: Baseline | NoBaseline | None = None,
        slos: Mapping[str, str] | None = None,
    ) -> str:
        """Store a verdict with all it was reached from; return its message."""
        stored = baseline if isinstance(baseline, Baseline) else None
        changed = self._changed(case, stored) if stored else []
        run = self._session.folder.path
        places = {
            "log": self._log_of(case),
            "run": run,
            "report": self._session.report_folder / f"{run.name}.html",
        }
        message = describe(verdict, changed=changed, places=places)
        inputs: dict[str, Any] = {
            "alpha": self._session.alpha,
            "tolerances": case.gate.tolerances,
            "slos": slos or {},
            "noise": self._noises(verdict, case) if stored else {},
        }
        if stored and _is_pair(case):
            # Apart from the figures' own nights, which the report draws beside their launches.
            inputs["ratios"] = {f.figure: stored.values(f.figure) for f in verdict.findings}
            stored = None
        self._session.folder.write_verdict(verdict, message, baseline=stored, inputs=inputs)
        self._note_status(verdict, case)
        return message

    def _changed(self, case: Case, stored: Baseline) -> list[str]:
        """Return how the servers differ from what the last accepted night ran."""
        changed = differences(case.server, stored, self._engine_version(case, case.server))
        if _is_pair(case) and stored.nights:
            reference = case.servers[0]
            last = stored.nights[-1].provenance.get("reference_engine_version")
            night = replace(stored.nights[-1], provenance={"engine_version": last})
            then = replace(stored, server=stored.server[AGAINST], nights=(night,))
            told = differences(reference, then, self._engine_version(case, reference))
            changed += [f"{reference.name}: {what}" for what in told]
        return changed

    def _noises(self, verdict: Verdict, case: Case) -> dict[str, Noise]:
        """Return the machine's noise of each figure judged by nights, as it is tonight."""
        judged = {f.figure for f in verdict.findings if f.nights}
        found = {name: self.noise(case, name) for name in sorted(judged)}
        return {name: noise for name, noise in found.items() if noise is not None}

    def _note_status(self, verdict: Verdict, case: Case) -> None:
        result = self._session.result_of(case)
        if result is None:
            return
        cell = (case.servers, case.traffic_name)
        known = self._acceptances.setdefault(cell, _Acceptance(case, result, verdict.status))
        known.status = Status.worst([known.status, verdict.status])
        known.refused = known.refused or verdict.status in NEVER_ACCEPTED

    def _log_of(self, case: Case) -> Path | str:
        label = CampaignSpec(case.servers, ()).label
        logs = (self._session.folder.path / "campaigns" / label / case.server.name).glob("*/*.log")
        return max(logs, key=lambda log: log.stat().st_mtime, default="none: nothing was started")

    def _engine_version(self, case: Case, server: ServerSpec) -> str | None:
        result = self._session.result_of(case)
        launches = result.of(server.name, case.traffic_name) if result else ()
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
        cell = (check.case.servers, check.case.traffic_name)
        known = self._acceptances.get(cell)
        if known is None or check.baseline is None:
            return False
        known.wanted = bool(self._session.option("accept"))
        return known.wanted and not known.refused

    def _inconclusive(self, verdict: Verdict, message: str) -> None:
        choice = self._session.option("inconclusive") or (
            "fail" if undecided_pairs(verdict) else "skip"
        )
        if choice == "fail":
            pytest.fail(message, pytrace=False)
        if choice == "skip":
            nights = nights_in_a_row(verdict, self._session.folder.path)
            if nights >= PATIENCE:
                told = f"inconclusive for {nights} nights in a row: nothing guards this"
                pytest.fail(f"{message}\n  {told}", pytrace=False)
            pytest.skip(message)

    def accept_all(self) -> None:
        """Add tonight to the baseline of every cell that all its tests allow; note the others."""
        for known in self._acceptances.values():
            # What could not be measured never came to the call that wants a baseline.
            invalid = known.status is Status.INVALID and bool(self._session.option("accept"))
            if known.refused and (known.wanted or invalid):
                told = f"{NOT_ACCEPTED}: {known.case.id}: {known.status.value}"
                self._session.folder.note(told)
            elif known.wanted:
                self._accept(known)

    def _accept(self, known: _Acceptance) -> None:
        case, folder = known.case, self._session.folder
        reference = case.servers[0] if _is_pair(case) else None
        now = datetime.now(UTC).astimezone()
        night = Night(
            date=now.date().isoformat(),
            host=socket.gethostname(),
            figures=_figures(known),
            provenance={
                "accepted_at": now.isoformat(timespec="seconds"),
                "accepted_by": user_name(),
                "run": folder.id,
                "status": known.status.value,
                **self._engines(case),
                **answers_for_night(known.result, case.server, case.traffic_name),
                **options.versions(),
            },
        )
        traffic = known.result.traffics[case.traffic_name]
        try:
            path = self._baselines.accept(
                self._machine_of(case), case.server, traffic, night, against=reference
            )
        except (LlmPerfError, OSError) as error:
            folder.note(f"{NOT_ACCEPTED}: {case.id}: {error}")
        else:
            folder.write_acceptance(CampaignSpec(case.servers, ()).label, case.traffic_name, path)

    def _engines(self, case: Case) -> dict[str, str | None]:
        """Return what ran, for a night's provenance: the judged server's first."""
        names = ("engine_version", "reference_engine_version")
        servers = reversed(case.servers)
        return {n: self._engine_version(case, s) for n, s in zip(names, servers, strict=False)}


def _is_pair(case: Case) -> bool:
    return len(case.servers) > 1


def _figures(known: _Acceptance) -> Mapping[str, Values]:
    """Return what a night holds: a server's figures, or the ratios of a pair."""
    case = known.case
    if not _is_pair(case):
        return known.result.figures(case.server.name, case.traffic_name)
    reference, candidate = case.servers
    return ratios_of(known.result, (reference, candidate), case.traffic_name)
