"""The plan of a session: its costs add up, and what it promises to see is what is judged by."""

from __future__ import annotations

import math

import pytest

from pytest_llmperf import attach, random, sim, vllm
from pytest_llmperf.campaign import CampaignSpec, Gate, Plan
from pytest_llmperf.campaign.plan import Known, SessionPlan, Wish, plan_session
from pytest_llmperf.campaign.plan_text import plan_lines, sight_line, total_line
from pytest_llmperf.gate import judge_values
from pytest_llmperf.metrics import figure
from pytest_llmperf.model.baseline import Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.traffic import Prompt, Request, Traffic
from pytest_llmperf.store.baselines import BaselineStore
from pytest_llmperf.store.costs import PastRuns

HERE = Machine(gpu_model="H200", gpu_count=2)
BASE = vllm("base", "m")
TWO = vllm("two", "m", "--tensor-parallel-size", "2")
# 100 requests, 10 at once, 50 tokens of 20 ms: 10 s a replay, and 1 s of warm-up before.
CHAT = random("chat", num_prompts=100, max_concurrency=10, output_len=50)
SHORT = random("short", num_prompts=10, max_concurrency=10, output_len=50, num_warmups=0)
BUILT = Traffic(CHAT, (Request(0, 0, Prompt((1, 2), 2, 8)),))
GATE = Gate((figure("output_tps"), figure("itl.mean"), figure("kv_tokens")), {"output_tps": 0.2})


@pytest.fixture
def store(tmp_path):
    return BaselineStore(tmp_path / "baselines")


@pytest.fixture
def planned(tmp_path, store):
    """Return a function from wishes to a plan."""

    def make(*wishes, own=(), plan=None, machine=HERE, alpha=0.004):
        known = Known(PastRuns(tmp_path / "runs"), store, lambda _server: machine)
        return plan_session(wishes, own, plan or Plan(3, 2), known, judged=2, alpha=alpha)

    return make


def wish(*servers, traffics=(CHAT,), gates=None):
    return Wish(CampaignSpec(servers, traffics), gates or {})


def accept(store, server, count, against=None, **figures):
    """Accept so many nights of three launches each, a little apart."""
    for number in range(count):
        step = 1 + 0.004 * (number % 3)
        rows = {
            name: tuple((value * step * (1 + 0.002 * launch),) for launch in range(3))
            for name, value in figures.items()
        }
        night = Night(f"2026-11-{number + 1:02}", "host", rows)
        store.accept(HERE, server, BUILT, night, against=against)


def test_costs_add_up(planned):
    """150 + 2 · 75 s of launches, three of 2 · 10 + 1 s of chat and 2 · 1 s of short: 369 s."""
    plan = planned(wish(BASE, traffics=(CHAT, SHORT)))
    assert plan.seconds == pytest.approx(300 + 3 * (21 + 2))
    assert plan.gpu_seconds == plan.seconds


def test_each_gpu_of_a_server_counts(planned):
    """A pair in turns: one server on one GPU, one on two, for 363 s each."""
    plan = planned(wish(BASE, TWO))
    assert plan.seconds == pytest.approx(2 * 363)
    assert plan.gpu_seconds == pytest.approx(363 + 2 * 363)


def test_what_runs_without_a_gpu_costs_no_gpu_minutes(planned):
    """A rehearsal is not charged, an attached server is launched once by nobody."""
    rehearsal = planned(wish(sim("s", "m", "--tensor-parallel-size", "4")))
    assert rehearsal.gpu_seconds == 0
    assert rehearsal.seconds == pytest.approx(3 * (2 + 21))
    attached = planned(wish(attach("here")))
    assert (attached.gpu_seconds, attached.seconds) == (0, pytest.approx(21))


def test_a_server_of_its_own_is_launched_once(planned):
    """llm_server's tests share it."""
    plan = planned(own=[BASE, BASE, TWO])
    assert plan.seconds == 300
    assert plan.gpu_seconds == 450


def test_it_promises_what_the_judgement_reports(planned, store):
    """Tolerance, alpha, noise pooled over the machine and nights are those of tonight."""
    accept(store, BASE, 6, output_tps=1000.0)
    accept(store, TWO, 4, output_tps=1500.0)
    plan = planned(wish(BASE, gates={"chat": Gate(GATE.figures[:1], GATE.tolerances)}))
    (promised,) = plan.figures
    nights = store.find(HERE, "base", "chat", BUILT.digest).values("output_tps")
    # Launches of a night are 0, 0.2 and 0.4 % above the first; tonight's likewise.
    finding = judge_values(
        [[1000.0 * (1 + 0.002 * launch)] for launch in range(3)],
        nights,
        rule=GATE.rule(figure("output_tps")),
        noise=store.noise(HERE, "output_tps"),
        alpha=0.004,
    )
    assert promised.seen == pytest.approx(finding.smallest_detectable_change, rel=1e-6)
    assert promised.noise == finding.noise == "pooled"
    assert promised.tolerance == finding.tolerance == 0.2
    assert promised.gateable


def test_a_tolerance_below_what_can_be_seen_is_not_gateable(planned, store):
    """One night, noise assumed: nothing below 5 % would be seen."""
    accept(store, BASE, 1, output_tps=1000.0, **{"itl.mean": 9.0}, kv_tokens=1e5)
    plan = planned(wish(BASE, gates={"chat": GATE}))
    by_name = {sight.name: sight for sight in plan.figures}
    assert by_name["output_tps"].gateable, "its tolerance is 20 %"
    assert not by_name["itl.mean"].gateable
    assert by_name["itl.mean"].noise == "assumed"
    assert by_name["kv_tokens"].seen == by_name["kv_tokens"].tolerance == 0.005
    text = "\n".join(plan_lines(plan))
    assert "itl.mean    not gateable: smallest detectable change" in text
    assert "> tolerance 5 %, noise assumed" in text
    assert "exact, one launch decides: kv_tokens 0.5 %" in text
    assert "against 1 accepted night:" in text
    assert "1 of 2 figures not gateable at their tolerance" in sight_line(plan)


def test_a_first_night_says_so_and_what_the_next_will_see(planned):
    """NO_BASELINE with the store's reason; no figure counts as judged by nights."""
    plan = planned(wish(BASE, gates={"chat": GATE}))
    assert plan.figures == ()
    text = "\n".join(plan_lines(plan))
    assert "no baseline: first night, NO_BASELINE (no night of base on chat is stored" in text
    assert "once it is accepted, the smallest detectable changes are about: output_tps" in text
    assert sight_line(plan) == "1 first night, NO_BASELINE"


def test_the_next_night_then_sees_that(planned, store):
    """The promise of the first night is kept where its launches were alike."""
    (before,) = planned(wish(BASE, gates={"chat": GATE})).sights
    night = Night("2026-11-30", "host", {"output_tps": ((1000.0,),) * 3})
    store.accept(HERE, BASE, BUILT, night)
    (after,) = planned(wish(BASE, gates={"chat": GATE})).sights
    assert (before.missing != "", after.missing) == (True, "")
    assert after.figures[0].seen == pytest.approx(before.figures[0].seen)


def test_a_machine_that_nobody_knows_has_no_baseline(planned, store):
    """On a laptop with several machines' baselines: costs and noise are assumed."""
    accept(store, BASE, 1, output_tps=1000.0)
    plan = planned(wish(BASE, gates={"chat": GATE}), machine=None)
    assert plan.sights[0].missing == "the machine is not known"
    assert plan.sights[0].figures[0].noise == "assumed"


def test_a_figure_that_the_baseline_lacks_is_told_apart(planned, store):
    """It may not exist on this server, so it is neither gateable nor not."""
    accept(store, BASE, 1, output_tps=1000.0)
    plan = planned(wish(BASE, gates={"chat": GATE}))
    assert [sight.name for sight in plan.figures] == ["output_tps"]
    assert "NO_BASELINE where measured: itl.mean, kv_tokens" in "\n".join(plan_lines(plan))


def test_a_figure_without_a_logarithm_cannot_be_gated(planned, store):
    """An error rate of 0 is told, not raised."""
    night = Night("2026-11-30", "host", {"error_rate": ((0.0,),) * 3})
    store.accept(HERE, BASE, BUILT, night)
    plan = planned(wish(BASE, gates={"chat": Gate((figure("error_rate"),))}))
    (sight,) = plan.figures
    assert not sight.gateable
    assert "error_rate" in sight.note
    assert "not gateable: error_rate, baseline night 1" in "\n".join(plan_lines(plan))


def test_a_damaged_baseline_is_told_in_its_place(planned, store):
    """The rest of the plan stands."""
    accept(store, BASE, 1, output_tps=1000.0)
    store.path(HERE, "base", "chat").write_text("{")
    plan = planned(wish(BASE, gates={"chat": GATE}), wish(TWO))
    assert "chat.json is damaged" in plan.sights[0].missing
    assert plan.seconds == pytest.approx(2 * 363)


def test_a_pair_is_judged_by_its_ratios(planned, store):
    """The baseline of the pair, not that of its candidate; noise is pooled over ratios alone."""
    accept(store, TWO, 6, output_tps=1500.0)
    plan = planned(wish(BASE, TWO, gates={"chat": GATE}))
    assert plan.figures == ()
    accept(store, TWO, 6, against=BASE, output_tps=1.5)
    plan = planned(wish(BASE, TWO, gates={"chat": GATE}))
    (promised,) = plan.figures
    assert promised.noise == "measured"
    text = "\n".join(plan_lines(plan))
    assert "two-vs-base: 3 launches × 2 replays of each, in turns, needs 2 GPUs" in text
    assert "ratios, where check() is called: against 6 accepted nights:" in text


def test_how_it_reads(planned):
    """Times say whether they are measured or assumed; 363 + 2 · 150 s are 11.05 GPU minutes."""
    plan = planned(wish(BASE), own=[TWO])
    assert plan_lines(plan) == [
        "base: 3 launches × 2 replays, needs 1 GPU: 6.0 GPU minutes in 6 min 3 s",
        "  launch: 2 min 30 s, then 1 min 15 s each (assumed)",
        "  chat: 100 prompts, 10 s a replay (assumed)",
        "two: 1 launch for llm_server, needs 2 GPUs: 5.0 GPU minutes in 2 min 30 s",
        "  launch: 2 min 30 s (assumed); its tests' own time comes on top",
    ]
    assert total_line(plan) == "11.1 GPU minutes in 8 min 33 s, 2 figures gated, α 0.4 % each"
    assert sight_line(plan) is None


def test_the_range_of_what_can_be_seen(planned, store):
    """From the best figure to the worst; exact ones say nothing of noise."""
    accept(store, BASE, 1, output_tps=1000.0, **{"itl.mean": 9.0}, kv_tokens=1e5)
    plan = planned(wish(BASE, gates={"chat": GATE}), alpha=0.01)
    seen = sorted(sight.seen for sight in plan.figures if sight.noise != "exact")
    low, high = (f"{100 * share:.2g} %" for share in seen)
    # One gain is the other's loss: 1 - exp(-y) and exp(y) - 1 of the same y.
    assert -math.log1p(-seen[0]) == pytest.approx(math.log1p(seen[1]))
    assert sight_line(plan).startswith(f"smallest detectable change {low} to {high}, by figure")


def test_nothing_asked_costs_nothing(planned):
    """A session without tests of ours."""
    plan = planned()
    assert plan == SessionPlan((), (), 2, 0.004)
    assert (plan.seconds, plan.gpu_seconds, plan_lines(plan)) == (0, 0, [])
