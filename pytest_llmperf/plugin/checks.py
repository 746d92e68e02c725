"""What ``llm_verdict`` and ``llm_comparison`` are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.campaign import (
    CampaignResult,
    caveats_of,
    judge_comparison,
    judge_server,
)
from pytest_llmperf.errors import LlmPerfError, SpecError
from pytest_llmperf.model.baseline import Baseline
from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.plugin.cases import Case
from pytest_llmperf.store.baselines import NoBaseline

if TYPE_CHECKING:
    from pytest_llmperf.plugin.session import Session


def require_valid(session: Session, node: pytest.Item, case: Case, result: CampaignResult) -> None:
    """End the test's set-up with an error if the measurement cannot be trusted."""
    traffic = case.traffic_name
    reasons = [
        f"{server.name}, {reason}"
        for server in case.servers
        for reason in result.invalid(server.name, traffic)
    ]
    if result.error is not None:
        reasons.insert(0, str(result.error))
    if reasons:
        findings = tuple(Finding("measurement", Status.INVALID, reason) for reason in reasons)
        caveats = caveats_of(result, case.server, traffic)
        verdict = Verdict(node.nodeid, case.server.name, traffic, findings, caveats)
        pytest.fail(session.ledger.record(verdict, case), pytrace=False)


class _Check:
    """One test's share of a campaign."""

    def __init__(
        self, session: Session, node: pytest.Item, case: Case, result: CampaignResult
    ) -> None:
        self._session = session
        self._node = node
        self._case = case
        self._result = result
        self._traffic = case.traffic_name
        self._findings: tuple[Finding, ...] = ()
        self.checked = False

    def _conclude(self, verdict: Verdict, baseline: Baseline | NoBaseline | None = None) -> Verdict:
        """Let the session act on this verdict; several calls in one test add up to one."""
        self._findings = (*self._findings, *verdict.findings)
        verdict = replace(verdict, findings=self._findings)
        self._node.user_properties.append(("llmperf_status", verdict.status.value))
        self._session.ledger.conclude(verdict, self._case, self._result, baseline)
        return verdict


class VerdictCheck(_Check):
    """Judges a server against limits and against its stored baseline."""

    def check(self, *, slo: Mapping[str, str] | None = None, baseline: bool = True) -> Verdict:
        """Judge; fail or skip the test as the status says; return the verdict otherwise.

        ``slo``: figure → limit, such as ``{"ttft.p99": "< 200 ms"}``. ``baseline=False``
        judges the limits alone.
        """
        self.checked = True
        try:
            if not slo and not baseline:
                raise SpecError("check(baseline=False) without slo= judges nothing")
            ledger = self._session.ledger
            stored = ledger.baseline(self._case, self._result) if baseline else None
            verdict = judge_server(
                self._node.nodeid,
                self._case.server,
                self._traffic,
                self._result,
                slos=slo or {},
                baseline=stored,
                gate=ledger.gate(self._case),
                noise=lambda name: ledger.noise(self._case, name),
            )
        except LlmPerfError as error:
            pytest.fail(str(error), pytrace=False)
        return self._conclude(verdict, stored)


class Comparison(_Check):
    """Judges a ratio between two servers measured in turns."""

    def expect(
        self, figure: str, *, at_least: float | None = None, at_most: float | None = None
    ) -> Verdict:
        """Judge candidate / reference of ``figure`` by its one-sided 95 % bound."""
        self.checked = True
        if at_least is None and at_most is None:
            pytest.fail("expect(...) needs at_least= or at_most=", pytrace=False)
        reference, candidate = self._case.servers
        try:
            verdict = judge_comparison(
                self._node.nodeid,
                (reference, candidate),
                self._traffic,
                self._result,
                figure,
                at_least=at_least,
                at_most=at_most,
            )
        except LlmPerfError as error:
            pytest.fail(str(error), pytrace=False)
        return self._conclude(verdict)
