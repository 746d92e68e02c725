"""From a campaign's values to a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmperf.campaign import CampaignResult, Gate, LaunchResult, ReplayResult, judge_server
from pytest_llmperf.campaign.judge import judge_comparison
from pytest_llmperf.errors import SloError, UnknownNameError
from pytest_llmperf.metrics import figure
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.model.verdict import Status
from pytest_llmperf.store.baselines import NoBaseline

A = ServerSpec.of("a", "sim", "m")
B = ServerSpec.of("b", "sim", "m")
CHAT = Traffic(TrafficSpec("chat", "random"), (Request(0, 0, Prompt("x", 1, 1)),))


def launches(server, figures, *, facts=None, limited=False, count=3):
    """Return launches of two replays, each with these figures."""
    replay = ReplayResult(figures, None, limited)
    return tuple(
        LaunchResult(server, n, LaunchFacts(), facts or {}, {"chat": (replay, replay)}, Path("log"))
        for n in range(1, count + 1)
    )


def result(*runs):
    """Return a finished campaign."""
    return CampaignResult(tuple(run for part in runs for run in part), {"chat": CHAT})


def baseline(nights=6, **figures):
    """Return accepted nights of three launches, 0.2 % apart from one another."""
    steps = [1.0 + 0.002 * (n % 3 - 1) for n in range(nights)]
    return Baseline(
        Machine(),
        "a",
        "chat",
        CHAT.digest,
        {},
        {},
        tuple(
            Night(
                f"2026-11-{n + 1:02}",
                "host",
                {
                    name.replace("__", "."): ((value * step,),) * 3
                    for name, value in figures.items()
                },
            )
            for n, step in enumerate(steps)
        ),
    )


def judged(measured, stored, *, slos=None, gate=None):
    """Return the verdict of server a."""
    return judge_server(
        "t::x",
        A,
        "chat",
        measured,
        slos=slos or {},
        baseline=stored,
        gate=gate or Gate(),
        noise=lambda name: None,
    )


def by_figure(verdict):
    """Return figure → status."""
    return {finding.figure: finding.status for finding in verdict.findings}


def test_an_unchanged_server_passes():
    """Every figure that both sides have is judged."""
    figures = {"output_tps": 1000.0, "itl.mean": 10.0, "itl.median": 9.9, "ttft.p99": 100.0}
    stored = baseline(output_tps=1000.0, itl__mean=10.0, itl__median=9.9, ttft__p99=100.0)
    verdict = judged(result(launches(A, figures)), stored)
    assert verdict.status is Status.PASSED
    assert by_figure(verdict) == dict.fromkeys(figures, Status.PASSED)
    assert verdict.caveats[0].startswith("SIMULATED")


def test_the_direction_is_the_figures_own():
    """More output is a gain, more latency a loss."""
    stored = baseline(output_tps=1000.0, itl__mean=10.0)
    verdict = judged(result(launches(A, {"output_tps": 1100.0, "itl.mean": 11.0})), stored)
    assert by_figure(verdict) == {"output_tps": Status.IMPROVED, "itl.mean": Status.REGRESSED}
    assert verdict.status is Status.REGRESSED
    assert {finding.unit for finding in verdict.findings} == {"tok/s", "ms"}


def test_the_memory_budget_has_no_noise():
    """1 % of the KV tokens gone is a loss, by one launch."""
    stored = baseline(nights=1, kv_tokens=650_560)
    runs = launches(A, {"output_tps": 1.0}, facts={"kv_tokens": 644_000.0}, count=1)
    verdict = judged(result(runs), stored, gate=Gate(figures=(figure("kv_tokens"),)))
    assert by_figure(verdict) == {"kv_tokens": Status.REGRESSED}


def test_throughput_that_measures_the_arrivals_is_not_gated():
    """The server kept up: a lower rate would be the schedule's, not its own."""
    stored = baseline(output_tps=1000.0, itl__mean=10.0)
    runs = launches(A, {"output_tps": 500.0, "itl.mean": 10.0}, limited=True)
    verdict = judged(result(runs), stored)
    assert verdict.status is Status.PASSED
    (finding,) = [f for f in verdict.findings if f.figure == "output_tps"]
    assert finding.reason.startswith("offered-limited")


def test_a_figure_that_is_gone_is_not_passed_over():
    """In the baseline but not measured now: nothing can be said, and that is said."""
    stored = baseline(output_tps=1000.0, itl__mean=10.0)
    verdict = judged(result(launches(A, {"itl.mean": 10.0})), stored)
    assert by_figure(verdict)["output_tps"] is Status.INCONCLUSIVE
    new = judged(result(launches(A, {"itl.mean": 10.0})), baseline(output_tps=1000.0))
    assert by_figure(new)["itl.mean"] is Status.NO_BASELINE


def test_limits_come_before_the_baseline():
    """A broken limit outranks a loss, and both are told."""
    stored = baseline(itl__mean=10.0)
    runs = launches(A, {"itl.mean": 12.0})
    verdict = judged(result(runs), stored, slos={"itl.mean": "< 11 ms"})
    assert verdict.status is Status.SLO_VIOLATED
    assert [f.status for f in verdict.findings] == [Status.SLO_VIOLATED, Status.REGRESSED]


def test_without_a_baseline_the_limits_are_judged_all_the_same():
    """NO_BASELINE says why; the limit's finding stands beside it."""
    runs = launches(A, {"itl.mean": 12.0})
    verdict = judged(result(runs), NoBaseline("another machine"), slos={"itl.mean": "< 20 ms"})
    assert verdict.status is Status.NO_BASELINE
    assert by_figure(verdict)["itl.mean"] is Status.PASSED


def test_a_limit_on_a_figure_that_was_not_measured_is_invalid():
    """A limit that nobody looked at must not be taken for one that holds."""
    verdict = judged(result(launches(A, {})), None, slos={"ttft.p99": "< 1 s"})
    assert verdict.status is Status.INVALID


def test_a_limit_that_cannot_be_read_is_an_error():
    """Unknown figure, unreadable limit."""
    with pytest.raises(UnknownNameError):
        judged(result(launches(A, {})), None, slos={"ttft.p98": "< 1 s"})
    with pytest.raises(SloError):
        judged(result(launches(A, {})), None, slos={"ttft.p99": "soon"})


def test_a_tolerance_of_ones_own():
    """A 4 % loss on a quiet figure passes at 10 % and not at 1 %."""
    stored = baseline(itl__mean=10.0)
    runs = result(launches(A, {"itl.mean": 10.4}))
    itl = (figure("itl.mean"),)
    strict = judged(runs, stored, gate=Gate(itl, {"itl.mean": 0.01}))
    assert strict.status is Status.REGRESSED


def test_a_comparison_pairs_the_launches():
    """Candidate b at 1.3 of reference a, in every pair."""
    runs = result(launches(A, {"total_tps": 1000.0}), launches(B, {"total_tps": 1300.0}))

    def ratio(at_least):
        return judge_comparison(
            "t::x", (A, B), "chat", runs, "total_tps", at_least=at_least, at_most=None
        )

    assert ratio(1.2).status is Status.PASSED
    assert ratio(1.4).status is Status.REGRESSED
    assert ratio(1.2).against == "a"
