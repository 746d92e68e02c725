"""From a campaign's values to a verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmperf.campaign import CampaignResult, Gate, LaunchResult, ReplayResult, judge_server
from pytest_llmperf.campaign.answers import answers_for_night
from pytest_llmperf.campaign.judge import judge_comparison, judge_ratios
from pytest_llmperf.campaign.ratios import ratios_of, record_ratios, undecided_pairs
from pytest_llmperf.errors import SloError, UnknownNameError
from pytest_llmperf.metrics import figure
from pytest_llmperf.model.answers import Answer, Answers
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


def judged(measured, stored, *, slos=None, gate=None, server=A):
    """Return the verdict of server a."""
    return judge_server(
        "t::x",
        server,
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


def test_answers_that_changed_are_said_and_judged_by_nobody():
    """Beside the accepted night's answers; the verdict stays what the figures make it."""

    def answering(*tokens):
        answers = {"chat": Answers((Answer("text", tokens),))}
        return [replace(run, answers=answers) for run in launches(A, {"itl.mean": 10.0})]

    accepted = answers_for_night(result(answering(1, 2)), A, "chat")
    stored = baseline(itl__mean=10.0)
    nights = (*stored.nights[:-1], replace(stored.nights[-1], provenance=accepted))
    verdict = judged(result(answering(1, 3)), replace(stored, nights=nights))
    assert verdict.status is Status.PASSED
    assert any("1 of 1 probes answer otherwise" in caveat for caveat in verdict.caveats)


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


def chosen(*names):
    """Return the gate that ``gate=[...]`` of a marker makes."""
    return Gate(tuple(figure(name) for name in names), chosen=True)


DRAFTING = ServerSpec("a", "sim", "m", ("--speculative-config", '{"method": "ngram"}'))
ATTACHED = ServerSpec("a", "attach", "http://host:8000")
PLAIN = {"itl.mean": 10.0}
DRAFTED = {"itl.mean": 10.0, "acceptance_length": 2.5}
NIGHTS = baseline(itl__mean=10.0)
DRAFTED_NIGHTS = baseline(itl__mean=10.0, acceptance_length=2.5)


class TestAFigureThatOneSideLacks:
    """What a suite named is told of; of the default figures a server may have none."""

    def of(self, server, figures, stored, gate=None):
        """Return figure → status."""
        return by_figure(
            judged(result(launches(server, figures)), stored, gate=gate, server=server)
        )

    def test_a_default_one_that_neither_has_is_left_out(self):
        """A server without speculation has no acceptance length, and nobody asked for it."""
        assert self.of(A, PLAIN, NIGHTS) == {"itl.mean": Status.PASSED}

    def test_a_chosen_one_that_neither_has_is_invalid(self):
        """gate= names it and nobody looked: that must not pass, alone or beside others."""
        both = chosen("itl.mean", "acceptance_length")
        assert self.of(A, PLAIN, NIGHTS, both) == {
            "itl.mean": Status.PASSED,
            "acceptance_length": Status.INVALID,
        }
        alone = self.of(A, PLAIN, NIGHTS, chosen("acceptance_length"))
        assert alone == {"acceptance_length": Status.INVALID}

    def test_a_chosen_one_is_told_on_the_first_night_already(self):
        """Before a night without it is accepted."""
        found = self.of(A, PLAIN, NoBaseline("none"), chosen("itl.mean", "acceptance_length"))
        assert found == {"baseline": Status.NO_BASELINE, "acceptance_length": Status.INVALID}

    def test_speculation_that_is_new_has_no_baseline(self):
        """As any other figure that only tonight has."""
        found = self.of(DRAFTING, DRAFTED, NIGHTS)
        assert found == {"itl.mean": Status.PASSED, "acceptance_length": Status.NO_BASELINE}

    def test_speculation_that_does_not_show_is_open(self):
        """The arguments speculate, the nights did, and tonight no figure says so."""
        found = self.of(DRAFTING, PLAIN, DRAFTED_NIGHTS)
        assert found["acceptance_length"] is Status.INCONCLUSIVE

    def test_speculation_switched_off_is_a_changed_argument(self):
        """Told as that; a suite that named the figure is told all the same."""
        off = self.of(A, PLAIN, DRAFTED_NIGHTS)
        assert off == {"itl.mean": Status.PASSED}
        named = self.of(A, PLAIN, DRAFTED_NIGHTS, chosen("acceptance_length"))
        assert named == {"acceptance_length": Status.INCONCLUSIVE}

    def test_of_an_attached_server_the_figures_say_whether_it_speculates(self):
        """Its arguments are not known: judged where both have it, told where tonight lacks it."""
        found = self.of(ATTACHED, DRAFTED, DRAFTED_NIGHTS)
        assert found == {"itl.mean": Status.PASSED, "acceptance_length": Status.PASSED}
        gone = self.of(ATTACHED, PLAIN, DRAFTED_NIGHTS)
        assert gone["acceptance_length"] is Status.INCONCLUSIVE

    def test_a_baseline_beside_which_nothing_was_judged_is_invalid(self):
        """Default figures that neither side has, or an empty gate=: silence is no pass."""
        nothing = judged(result(launches(A, {})), baseline(total_tps=1.0))
        assert [f.status for f in nothing.findings] == [Status.INVALID]
        assert "itl.mean" in nothing.findings[0].reason
        empty = judged(result(launches(A, PLAIN)), NIGHTS, gate=chosen())
        assert empty.findings[0].reason.endswith("gate= is empty")

    def test_a_chosen_ratio_that_no_pair_has_names_the_server(self):
        """The candidate drafts, the reference does not: first night and later alike."""
        runs = result(launches(A, PLAIN), launches(B, DRAFTED))
        gate = chosen("itl.mean", "acceptance_length")
        for stored in (NoBaseline("none"), baseline(itl__mean=1.0)):
            verdict = of_ratios(runs, stored, gate)
            (finding,) = [f for f in verdict.findings if f.figure == "acceptance_length"]
            assert finding.status is Status.INVALID
            assert finding.reason.endswith("no replay or launch of a gives it")
        default = replace(gate, chosen=False)
        assert by_figure(of_ratios(runs, baseline(itl__mean=1.0), default)) == {
            "itl.mean": Status.PASSED
        }

    def test_a_chosen_ratio_of_0_is_told_as_that(self):
        """No request failed on either server: measured, and no ratio."""
        figures = {"error_rate": 0.0}
        runs = result(launches(A, figures), launches(B, figures))
        (finding,) = of_ratios(runs, baseline(itl__mean=1.0), chosen("error_rate")).findings
        assert finding.status is Status.INCONCLUSIVE
        assert "error_rate was 0, which has no ratio" in finding.reason

    def test_ratios_of_speculation_switched_off_are_left_out(self):
        """Both servers speculated on accepted nights, the candidate does no more."""
        servers = (replace(DRAFTING, name="a"), B)
        runs = result(launches(servers[0], DRAFTED), launches(B, PLAIN))
        stored = baseline(itl__mean=1.0, acceptance_length=1.0)
        gate = replace(chosen("itl.mean", "acceptance_length"), chosen=False)
        assert by_figure(of_ratios(runs, stored, gate, servers)) == {"itl.mean": Status.PASSED}

    def test_no_ratio_beside_accepted_nights_is_invalid(self):
        """As of a server's own nights."""
        runs = result(launches(A, {}), launches(B, {}))
        (finding,) = of_ratios(runs, baseline(total_tps=1.0)).findings
        assert finding.status is Status.INVALID


RATIOS = Gate(tuple(figure(name) for name in ("output_tps", "itl.mean", "kv_tokens")))


def pair(tps=1300.0, itl=8.0, kv=1180.0, **options):
    """Return a campaign of reference a (1,000 tok/s, 10 ms, 1,000 tokens) and candidate b."""
    return result(
        launches(A, {"output_tps": 1000.0, "itl.mean": 10.0}, facts={"kv_tokens": 1e3}, **options),
        launches(B, {"output_tps": tps, "itl.mean": itl}, facts={"kv_tokens": kv}, **options),
    )


def of_ratios(measured, stored, gate=RATIOS, servers=(A, B)):
    """Return the verdict of b's ratios to a."""
    return judge_ratios(
        "t::x", servers, "chat", measured, baseline=stored, gate=gate, noise=lambda name: None
    )


ACCEPTED = baseline(output_tps=1.3, itl__mean=0.8, kv_tokens=1.18)


class TestRatios:
    """A pair's ratios against those of accepted nights."""

    def test_a_pair_gives_one_ratio_a_launch_pair(self):
        """Launch means are of logarithms: √(1000·1210) = 1100 over 1000; 0 has no ratio."""
        replays = {
            "a": [{"output_tps": 1000.0, "error_rate": 0.0}] * 2,
            "b": [{"output_tps": v, "error_rate": 0.0} for v in (1000.0, 1210.0)],
        }
        runs = tuple(
            LaunchResult(
                server,
                number,
                LaunchFacts(),
                {},
                {"chat": tuple(ReplayResult(f, None, False) for f in replays[server.name])},  # noqa: FBT003
                Path("log"),
            )
            for server in (A, B)
            for number in (1, 2)
        )
        found = ratios_of(CampaignResult(runs, {"chat": CHAT}), (A, B), "chat")
        assert list(found) == ["output_tps"]
        assert found["output_tps"] == ((pytest.approx(1.1),), (pytest.approx(1.1),))

    def test_unchanged_ratios_pass(self):
        """1.3 times the output at 0.8 times the ITL, as accepted."""
        verdict = of_ratios(pair(), ACCEPTED)
        assert by_figure(verdict) == dict.fromkeys(
            ("output_tps", "itl.mean", "kv_tokens"), Status.PASSED
        )
        assert {finding.unit for finding in verdict.findings} == {"×"}
        assert {finding.kind for finding in verdict.findings} == {"ratio"}
        assert verdict.against == "a"

    def test_a_gain_that_shrank_regresses(self):
        """Still 1.2 times the reference, and 1.3 was accepted: 7.7 % of it is gone."""
        verdict = of_ratios(pair(tps=1200.0), ACCEPTED)
        assert by_figure(verdict)["output_tps"] is Status.REGRESSED
        (finding,) = [f for f in verdict.findings if f.figure == "output_tps"]
        assert finding.value == pytest.approx(1.2)
        assert "1.2 × the reference's, accepted 1.3; 7.7 % lower than 6 accepted nights" in (
            finding.reason
        )
        assert not undecided_pairs(verdict)

    def test_a_reference_that_got_slower_is_no_gain_of_the_host(self):
        """Both servers at half speed: every ratio is as it was."""
        slow = result(
            launches(A, {"output_tps": 500.0, "itl.mean": 20.0}, facts={"kv_tokens": 1e3}),
            launches(B, {"output_tps": 650.0, "itl.mean": 16.0}, facts={"kv_tokens": 1180.0}),
        )
        assert of_ratios(slow, ACCEPTED).status is Status.PASSED

    def test_exact_figures_have_exact_ratios(self):
        """KV tokens 1.18 times the reference's, 1.17 now: 0.8 % lost, one launch decides."""
        verdict = of_ratios(pair(kv=1170.0, count=1), ACCEPTED)
        assert by_figure(verdict)["kv_tokens"] is Status.REGRESSED

    def test_arrivals_are_not_gated(self):
        """Where a server kept up, its throughput is the schedule's."""
        verdict = of_ratios(pair(tps=1000.0, limited=True), ACCEPTED)
        assert by_figure(verdict)["output_tps"] is Status.PASSED
        (finding,) = [f for f in verdict.findings if f.figure == "output_tps"]
        assert "offered-limited" in finding.reason

    def test_the_first_night_tells_its_ratios(self):
        """Nothing is judged, and nothing looks as if."""
        verdict = of_ratios(pair(), NoBaseline("nothing stored"))
        assert [f.status for f in verdict.findings] == [Status.NO_BASELINE]
        assert verdict.findings[0].reason == (
            "nothing stored. Tonight, × the reference's: output_tps 1.3, itl.mean 0.8, "
            "kv_tokens 1.18"
        )
        assert record_ratios(pair(), (A, B), "chat", RATIOS, verdict.findings) == ()

    def test_what_was_not_asked_is_recorded(self):
        """After a limit on the output the other ratios stand beside it, and judge nothing."""
        measured = pair(tps=1100.0)
        asked = judge_comparison(
            "t::x", (A, B), "chat", measured, "output_tps", at_least=1.2, at_most=None
        )
        assert asked.status is Status.REGRESSED
        recorded = record_ratios(measured, (A, B), "chat", RATIOS, asked.findings)
        assert {f.figure: f.status for f in recorded} == {
            "itl.mean": Status.PASSED,
            "kv_tokens": Status.PASSED,
        }
        assert {f.figure: f.unit for f in recorded} == {"itl.mean": "ms", "kv_tokens": "tokens"}

    def test_open_pairs_are_told_from_open_nights(self):
        """A ratio at its limit is open by pairs; 4 % beside one night is open by nights."""
        measured = pair(count=1)
        pairs = judge_comparison(
            "t::x", (A, B), "chat", measured, "output_tps", at_least=1.3, at_most=None
        )
        assert pairs.status is Status.INCONCLUSIVE
        assert undecided_pairs(pairs)
        nights = of_ratios(pair(tps=1250.0), baseline(nights=1, output_tps=1.3))
        assert by_figure(nights)["output_tps"] is Status.INCONCLUSIVE
        assert not undecided_pairs(nights)

    @pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True)])
    @pytest.mark.parametrize("at_least", [0.5, 1.2, 2.0])
    def test_a_limit_on_arrivals_is_open(self, first, second, at_least):
        """Where either server kept up the ratio is no answer, however far from the limit."""
        measured = result(
            launches(A, {"output_tps": 1000.0}, limited=first),
            launches(B, {"output_tps": 1100.0}, limited=second),
        )
        verdict = judge_comparison(
            "t::x", (A, B), "chat", measured, "output_tps", at_least=at_least, at_most=None
        )
        (finding,) = verdict.findings
        assert finding.status is Status.INCONCLUSIVE
        assert finding.reason.startswith("1.1 times the reference, and the arrivals were the limit")
        assert "Raise the request rate" in finding.reason
        assert (finding.open, finding.launches_needed) == (False, None), "pairs do not help"
        assert undecided_pairs(verdict)

    def test_latency_under_limited_arrivals_is_judged(self):
        """A time says what a server does whoever sets the pace."""
        verdict = judge_comparison(
            "t::x", (A, B), "chat", pair(limited=True), "itl.mean", at_least=None, at_most=1.0
        )
        assert verdict.status is Status.PASSED

    def test_one_launch_decides_a_limit_on_an_exact_figure(self):
        """1,180 tokens beside 1,000 are 1.18 times, whatever noise a first pair may have."""

        def kv(at_most):
            return judge_comparison(
                "t::x", (A, B), "chat", pair(count=1), "kv_tokens", at_least=None, at_most=at_most
            ).status

        assert (kv(1.18), kv(1.17)) == (Status.PASSED, Status.REGRESSED)

    def test_either_server_makes_a_caveat(self):
        """A real candidate beside a simulated reference is SIMULATED."""
        real = ServerSpec.of("b", "vllm", "m")
        measured = result(launches(A, {"output_tps": 1.0}), launches(real, {"output_tps": 1.0}))
        verdict = judge_ratios(
            "t::x", (A, real), "chat", measured, baseline=NoBaseline("none"), gate=RATIOS,
            noise=lambda name: None,
        )  # fmt: skip
        assert verdict.caveats == ("SIMULATED: no real server was measured",)
