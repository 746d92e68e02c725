"""What ``llm_verdict`` and ``llm_comparison`` are, and what becomes of them after the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.campaign import CampaignResult, caveats_of, judge_comparison, judge_server
from pytest_llmperf.campaign.judge import parse_slos
from pytest_llmperf.campaign.ratios import judge_ratios, record_ratios
from pytest_llmperf.errors import LlmPerfError, SpecError
from pytest_llmperf.model.baseline import Baseline
from pytest_llmperf.model.options import is_number
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.plugin import options
from pytest_llmperf.plugin.cases import Case
from pytest_llmperf.plugin.grouping import test_id
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
        reasons.insert(0, str(result.error) or type(result.error).__name__)
    if traffic in result.unbuilt:
        reasons.insert(0, str(result.unbuilt[traffic]))
    if reasons:
        findings = tuple(Finding("measurement", Status.INVALID, reason) for reason in reasons)
        caveats = caveats_of(result, case.servers, traffic)
        against = _against(case)
        verdict = Verdict(test_id(node), case.server.name, traffic, findings, caveats, against)
        pytest.fail(session.ledger.record(verdict, case), pytrace=False)


def _against(case: Case) -> str | None:
    return case.servers[0].name if len(case.servers) > 1 else None


class Check:
    """One test's share of a campaign, and what the test has asked of it so far."""

    def __init__(
        self, session: Session, node: pytest.Item, case: Case, result: CampaignResult
    ) -> None:
        self.case = case
        self.result = result
        self.baseline: Baseline | NoBaseline | None = None
        """What was judged against; None where that was not asked for."""
        self.slos: dict[str, str] = {}
        self.complaints: list[str] = []
        """What was asked for and could not be."""
        self._session = session
        self._node = node
        self._findings: tuple[Finding, ...] = ()
        self._asked = False
        node.stash[options.CHECK] = self

    @property
    def checked(self) -> bool:
        """Whether the test has asked anything: a check was called, whatever it came to."""
        return self._asked or bool(self.complaints)

    @property
    def verdict(self) -> Verdict:
        """Everything asked so far, as one verdict; what could not be asked is in it too."""
        unasked = (Finding("check", Status.INVALID, text) for text in self.complaints)
        return Verdict(
            test_id(self._node),
            self.case.server.name,
            self.case.traffic_name,
            (*unasked, *self._findings),
            self.caveats,
            against=_against(self.case),
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """What must be said wherever this verdict is shown."""
        return caveats_of(self.result, self.case.servers, self.case.traffic_name, self.baseline)

    def _add(self, verdict: Verdict) -> Verdict:
        self._asked = True
        self._findings = (*self._findings, *verdict.findings)
        return verdict

    def conclude(self) -> None:
        """After the test's body: store the verdict, and end the test as its status says."""
        if self.checked:
            self._node.user_properties.append(("llmperf_status", self.verdict.status.value))
            self._session.ledger.conclude(self)

    def keep(self) -> None:
        """After a body that failed by itself: store the verdict, accept nothing."""
        if self.checked:
            self._session.ledger.record(self.verdict, self.case, self.baseline, self.slos)


class VerdictCheck(Check):
    """Judges a server against limits and against its stored baseline."""

    def check(self, *, slo: Mapping[str, str] | None = None, baseline: bool = True) -> Verdict:
        """Judge, and return the verdict; the test ends by it after its body.

        ``slo``: figure → limit, such as ``{"ttft.p99": "< 200 ms"}``. ``baseline=False``
        judges the limits alone. What cannot be read fails the test, and the rest is judged
        all the same: the GPU minutes are spent.
        """
        readable = self._readable(slo or {})
        self.slos |= readable
        if not slo and not baseline:
            self.complaints.append(
                str(SpecError("check(baseline=False) without slo= asks nothing"))
            )
        ledger = self._session.ledger
        try:
            stored = ledger.baseline(self.case, self.result) if baseline else None
        except LlmPerfError as error:
            self.complaints.append(str(error))
            stored = None
        self.baseline = stored or self.baseline
        return self._add(
            judge_server(
                test_id(self._node),
                self.case.server,
                self.case.traffic_name,
                self.result,
                slos=readable,
                baseline=stored,
                gate=ledger.gate(self.case),
                noise=lambda name: ledger.noise(self.case, name),
            )
        )

    def _readable(self, slo: Mapping[str, str]) -> dict[str, str]:
        readable: dict[str, str] = {}
        try:
            _require_mapping(slo)
        except SpecError as error:
            self.complaints.append(str(error))
            return readable
        for figure, text in slo.items():
            try:
                parse_slos({figure: text})
                readable[figure] = text
            except LlmPerfError as error:
                self.complaints.append(str(error))
        return readable


class Comparison(Check):
    """Judges the ratios between two servers measured in turns."""

    @property
    def verdict(self) -> Verdict:
        """Everything asked so far, and beside it the ratios that nothing was asked of."""
        asked = super().verdict
        recorded = record_ratios(
            self.result, self._pair, self.case.traffic_name, self.case.gate, asked.findings
        )
        return replace(asked, findings=(*asked.findings, *recorded))

    @property
    def _pair(self) -> tuple[ServerSpec, ServerSpec]:
        reference, candidate = self.case.servers
        return reference, candidate

    def check(self) -> Verdict:
        """Judge the ratios of the gated figures against those of accepted nights.

        The marker's ``gate=`` chooses figures and tolerances, ``--llmperf-accept`` accepts the
        ratios as a night. The test ends by the verdict after its body.
        """
        ledger = self._session.ledger
        try:
            self.baseline = ledger.baseline(self.case, self.result)
        except LlmPerfError as error:
            self.complaints.append(str(error))
            return self.verdict
        return self._add(
            judge_ratios(
                test_id(self._node),
                self._pair,
                self.case.traffic_name,
                self.result,
                baseline=self.baseline,
                gate=ledger.gate(self.case),
                noise=lambda name: ledger.noise(self.case, name),
            )
        )

    def expect(
        self, figure: str, *, at_least: float | None = None, at_most: float | None = None
    ) -> Verdict:
        """Judge candidate / reference of ``figure`` by its one-sided 95 % bound."""
        try:
            _require_bounds(figure, at_least=at_least, at_most=at_most)
            return self._add(
                judge_comparison(
                    test_id(self._node),
                    self._pair,
                    self.case.traffic_name,
                    self.result,
                    figure,
                    at_least=at_least,
                    at_most=at_most,
                )
            )
        except LlmPerfError as error:
            self.complaints.append(str(error))
            return self.verdict


def _require_mapping(slo: Mapping[str, str]) -> None:
    """Raise SpecError for limits that are not by figure."""
    if not isinstance(slo, Mapping):
        raise SpecError(
            f"check(slo=...) is {slo!r}, not a mapping of figures to limits, such as "
            '{"ttft.p99": "< 200 ms"}'
        )


def _require_bounds(figure: str, **bounds: float | None) -> None:
    """Raise SpecError unless at least one bound is given, and each is a number."""
    if all(bound is None for bound in bounds.values()):
        raise SpecError("expect(...) needs at_least= or at_most=")
    for name, bound in bounds.items():
        if bound is not None and not is_number(bound):
            raise SpecError(
                f"expect({figure!r}): {name}= is {bound!r}, not a number such as 1.2 (the ratio "
                "candidate / reference)"
            )
