"""The fixtures of a suite. Measuring happens in set-up; ``check()`` only judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.plugin.options import BODY_PASSED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_llmperf.campaign import CampaignResult
    from pytest_llmperf.launch import RunningServer
    from pytest_llmperf.plugin.cases import Case
    from pytest_llmperf.plugin.checks import Comparison, VerdictCheck
    from pytest_llmperf.plugin.session import Session


@pytest.fixture
def llm_case(request: pytest.FixtureRequest) -> Case:
    """Return the (server, traffic) of this test, from its ``llmperf`` marker."""
    case: Case = request.param
    return case


@pytest.fixture
def llm_server(request: pytest.FixtureRequest, llm_case: Case) -> RunningServer:
    """Return a running server, for tests of one's own: ``llm_server.target.base_url``."""
    return _session(request).running(llm_case)


@pytest.fixture
def llm_campaign(request: pytest.FixtureRequest, llm_case: Case) -> CampaignResult:
    """All launches and replays of this test's server(s), valid but not judged."""
    from pytest_llmperf.plugin.checks import require_valid

    session = _session(request)
    result = session.measured(llm_case)
    require_valid(session, request.node, llm_case, result)
    return result


@pytest.fixture
def llm_verdict(
    request: pytest.FixtureRequest, llm_case: Case, llm_campaign: CampaignResult
) -> Iterator[VerdictCheck]:
    """``check(slo={...}, baseline=True)`` judges this test's server on its traffic."""
    from pytest_llmperf.plugin.checks import VerdictCheck

    check = VerdictCheck(_session(request), request.node, llm_case, llm_campaign)
    yield check
    _require_checked(request.node, checked=check.checked, call="llm_verdict.check()")


@pytest.fixture
def llm_comparison(
    request: pytest.FixtureRequest, llm_case: Case, llm_campaign: CampaignResult
) -> Iterator[Comparison]:
    """Judges ratios to the ``against`` server.

    ``check()`` by the ratios of accepted nights, ``expect("total_tps", at_least=1.2)`` by a limit.
    """
    from pytest_llmperf.plugin.checks import Comparison

    check = Comparison(_session(request), request.node, llm_case, llm_campaign)
    yield check
    _require_checked(
        request.node, checked=check.checked, call="llm_comparison.check() or .expect(...)"
    )


def _session(request: pytest.FixtureRequest) -> Session:
    from pytest_llmperf.plugin.session import session_of

    return session_of(request.config)


def _require_checked(node: pytest.Item, *, checked: bool, call: str) -> None:
    if not checked and node.stash.get(BODY_PASSED, False):
        pytest.fail(
            f"{node.nodeid} measured but judged nothing: call {call} in the test", pytrace=False
        )
