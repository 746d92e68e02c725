"""The order of work, and what is kept when it ends early (no server is started here)."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest

from pytest_llmperf.campaign import CampaignSpec, Plan, Tools, death, run_campaign
from pytest_llmperf.campaign import runner as runner_module
from pytest_llmperf.campaign.validity import Invalid
from pytest_llmperf.errors import (
    ReplayError,
    ServerDiedError,
    ServerError,
    ServerStartError,
    UnknownNameError,
)
from pytest_llmperf.launch import LaunchSettings, RunningServer
from pytest_llmperf.model.answers import Answer, Answers
from pytest_llmperf.model.launch import LaunchFacts, Target
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.record import ClientHealth, Replay, RequestRecord
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import TrafficSpec
from pytest_llmperf.store.runs import RunFolder, RunHeader, load_run

A = ServerSpec.of("a", "sim", "m")
B = ServerSpec.of("b", "sim", "m")
ONE = TrafficSpec.of("one", "random", {"input_len": 4, "output_len": 2}, {"num_prompts": 2})
TWO = replace(ONE, name="two", seed=1)
HEALTH = ClientHealth(0, 0, 0, 0.1, 1.0, 0.1)


class Stage:
    """Stands in for launching and replaying; notes the order of work; fails where told."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fail_at: str | None = None
        self.error: Exception = ServerDiedError("a died: CUDA out of memory")
        self.answers = (Answer("blue", (5,)),)
        self.hiccups = 0

    def _do(self, what: str) -> None:
        if what == self.fail_at:
            raise self.error
        self.done.append(what)

    @contextmanager
    def launch(self, spec, folder, settings):
        number = folder.name.removeprefix("launch-")
        self.now = f"{spec.name}{number}"
        self._do(f"launch {self.now}")
        facts = LaunchFacts(kv_tokens=1000, startup_s=1.0)
        yield RunningServer(
            spec, Target("127.0.0.1", 1, "m"), facts, folder / "server.log", 1, "x", lambda: None
        )
        self._do(f"stop {self.now}")

    def warm_up(self, traffic, target, **_):
        self._do(f"warm {self.now} {traffic.spec.name}")

    def probe(self, traffic, target, *, random_weights, **_):
        self._do(f"probe {self.now} {traffic.spec.name}")
        return Answers(self.answers, random_weights)

    def replay(self, traffic, target, **_):
        self._do(f"replay {self.now} {traffic.spec.name}")
        late = self.hiccups > 0
        self.hiccups -= 1
        record = RequestRecord(
            0, 0, 0, (10_000_000, 20_000_000), (1, 1), 20_000_000, 2, output_tokens=2
        )
        health = replace(HEALTH, loop_lag_max_ns=1_300_000_000) if late else HEALTH
        return Replay(
            traffic.spec.name, traffic.digest, (record,), None, None, "kernel", health, "now"
        )


@pytest.fixture
def stage(monkeypatch):
    """A campaign's hands replaced; everything else is the real thing."""
    stage = Stage()
    for name in ("launch", "warm_up", "probe", "replay"):
        monkeypatch.setattr(runner_module, name, getattr(stage, name))
    monkeypatch.setattr(RunningServer, "metrics_text", lambda self: None)
    return stage


@pytest.fixture
def tools(tmp_path):
    """A run folder of its own."""
    folder = RunFolder.create(tmp_path, "run")
    folder.write_header(RunHeader("run", "2026-11-30T03:00:00+00:00", Machine()))
    return Tools(LaunchSettings(), folder)


def test_every_launch_warms_up_and_then_replays_each_traffic_in_turn(stage, tools):
    """Traffics alternate, so that a drift within a launch weighs on all of them."""
    result = run_campaign(CampaignSpec((A,), (ONE, TWO)), Plan(1, 2), tools)
    assert stage.done == [
        "launch a1",
        "warm a1 one",
        "probe a1 one",
        "warm a1 two",
        "probe a1 two",
        "replay a1 one",
        "replay a1 two",
        "replay a1 one",
        "replay a1 two",
        "stop a1",
    ]
    assert result.error is None
    assert result.values("a", "one", "itl.mean") == ((10.0, 10.0),)
    assert result.values("a", "one", "kv_tokens") == ((1000,),)


def test_a_pair_takes_turns(stage, tools):
    """A B B A: one server runs at a time."""
    run_campaign(CampaignSpec((A, B), (ONE,)), Plan(2, 1), tools)
    order = [what for what in stage.done if what.startswith(("launch", "stop"))]
    assert order == [f"{do} {who}" for who in ("a1", "b1", "b2", "a2") for do in ("launch", "stop")]


def test_what_was_measured_before_an_error_is_kept(stage, tools, tmp_path):
    """Died in the second launch's second replay: three replays stay, the rest is named."""
    stage.fail_at = "replay a2 two"
    result = run_campaign(CampaignSpec((A,), (ONE, TWO)), Plan(3, 1), tools)
    assert result.error is stage.error
    assert result.missing == "a, launch 2 of 3: 1 of 2 replays done; 1 launches not begun"
    assert result.values("a", "one", "itl.mean") == ((10.0,), (10.0,))
    assert result.values("a", "two", "itl.mean") == ((10.0,),)
    stored = load_run(tmp_path / "run")
    assert len([r for launch in stored.launches for r in launch.replays]) == 3
    assert "CUDA out of memory" in stored.notes[0]


def test_a_server_that_never_starts_leaves_a_result_without_launches(stage, tools):
    """Nothing measured, the error told."""
    stage.fail_at, stage.error = "launch a1", ServerStartError("a: no such model")
    result = run_campaign(CampaignSpec((A,), (ONE,)), Plan(2, 1), tools)
    assert result.launches == ()
    assert str(result.error) == "a: no such model"


def test_a_replay_that_cannot_be_trusted_is_kept_and_marked(stage, tools, monkeypatch):
    """Its figures stay in the artifacts; the reason goes with them. It is not repeated."""
    monkeypatch.setattr(
        runner_module, "invalid_reason", lambda replay, spec: Invalid("requests", "1 of 2 failed")
    )
    result = run_campaign(CampaignSpec((A,), (ONE,)), Plan(1, 1), tools)
    assert result.invalid("a", "one") == ["launch 1, replay 1: 1 of 2 failed"]
    assert stage.done.count("replay a1 one") == 1


def test_a_hiccup_of_the_client_costs_one_replay_and_not_the_night(stage, tools, tmp_path):
    """The loop looked away for 1.3 s: that replay is repeated, once, and the run says so."""
    stage.hiccups = 1
    result = run_campaign(CampaignSpec((A,), (ONE,)), Plan(1, 2), tools)
    assert result.invalid("a", "one") == []
    assert stage.done.count("replay a1 one") == 3
    (note,) = load_run(tmp_path / "run").notes
    assert note.startswith(
        "a: one, launch 1, replay 1 was not kept but repeated: client-bound: the load process "
        "looked away from its sockets for 1300.0 ms"
    )
    assert result.values("a", "one", "itl.mean") == ((10.0, 10.0),)


def test_a_client_that_stays_too_slow_makes_the_replay_invalid(stage, tools):
    """Twice is no hiccup."""
    stage.hiccups = 2
    result = run_campaign(CampaignSpec((A,), (ONE,)), Plan(1, 1), tools)
    assert stage.done.count("replay a1 one") == 2
    (reason,) = result.invalid("a", "one")
    assert reason.startswith("launch 1, replay 1: client-bound: ")


def test_what_a_launch_answered_is_kept(stage, tools, tmp_path):
    """In the result and in the run's folder, a traffic at a time."""
    result = run_campaign(CampaignSpec((A,), (ONE, TWO)), Plan(2, 1), tools)
    expected = {"one": Answers(stage.answers), "two": Answers(stage.answers)}
    assert [launch.answers for launch in result.launches] == [expected, expected]
    stored = load_run(tmp_path / "run").launches
    assert [launch.answers for launch in stored] == [expected, expected]


def test_nonsense_is_invalid_however_fast(stage, tools):
    """One token over and over in all answers: the reason comes first, launch by launch."""
    stage.answers = (Answer("!" * 16, (0,) * 16),) * 4
    result = run_campaign(CampaignSpec((A,), (ONE,)), Plan(2, 1), tools)
    reasons = result.invalid("a", "one")
    assert [reason.partition(": ")[0] for reason in reasons] == ["launch 1", "launch 2"]
    assert "4 of 4 answers are one token over and over" in reasons[0]


def test_random_weights_may_answer_nonsense(stage, tools):
    """``--load-format dummy`` measures speed; its answers are kept with that mark."""
    stage.answers = (Answer("!" * 16, (0,) * 16),) * 4
    dummy = A.with_arguments(["--load-format", "dummy"])
    result = run_campaign(CampaignSpec((dummy,), (ONE,)), Plan(1, 1), tools)
    assert result.invalid("a", "one") == []
    assert result.launches[0].answers["one"] == Answers(stage.answers, random_weights=True)


def lost_after(stage, monkeypatch, *, died):
    """Let /metrics be refused once a replay has run; ``died`` is then told at the second look."""
    looks = []

    def refused(running):
        if any(what.startswith("replay") for what in stage.done):
            raise ServerError("GET http://127.0.0.1:1/metrics: Connection refused")

    def check(running):
        looks.append("look")
        if died and len(looks) > 1:
            raise ServerDiedError("a died: CUDA out of memory")

    monkeypatch.setattr(RunningServer, "metrics_text", refused)
    monkeypatch.setattr(RunningServer, "check_alive", check)


def test_a_death_in_a_replay_is_told_as_one_and_the_replay_is_kept(
    stage, tools, tmp_path, monkeypatch
):
    """Its sockets close before its end is told; the refused /metrics is not the reason."""
    lost_after(stage, monkeypatch, died=True)
    result = run_campaign(CampaignSpec((A,), (ONE,)), Plan(1, 3), tools)
    assert isinstance(result.error, ServerDiedError)
    assert stage.done.count("replay a1 one") == 1
    stored = load_run(tmp_path / "run")
    (replay,) = stored.launches[0].replays
    assert "the server was lost: GET" in replay.invalid
    assert "a died: CUDA out of memory. Missing: a, launch 1 of 1: 0 of 3" in stored.notes[0]


def test_a_server_that_lives_but_answers_no_more_is_told_in_its_own_words(
    stage, tools, monkeypatch
):
    """Nothing died: the error stays what it was, after a wait for a death's news."""
    monkeypatch.setattr(death, "DEATH_TOLD_S", 0.1)
    lost_after(stage, monkeypatch, died=False)
    result = run_campaign(CampaignSpec((A,), (ONE,)), Plan(1, 1), tools)
    assert str(result.error) == "GET http://127.0.0.1:1/metrics: Connection refused"


def test_a_death_behind_a_failed_warm_up_is_the_error(stage, tools, monkeypatch):
    """None of the warm-up's requests came through, since nobody was there."""
    stage.fail_at, stage.error = "warm a1 one", ReplayError("none of 4 warm-up requests worked")
    lost_after(stage, monkeypatch, died=True)
    result = run_campaign(CampaignSpec((A,), (ONE,)), Plan(1, 1), tools)
    assert str(result.error) == "a died: CUDA out of memory"


def test_an_error_that_ends_in_a_dot_gets_no_second_one(stage, tools, tmp_path):
    """The note goes on after it."""
    stage.fail_at, stage.error = "launch a1", ServerStartError("a: no such model.")
    run_campaign(CampaignSpec((A,), (ONE,)), Plan(1, 1), tools)
    (note,) = load_run(tmp_path / "run").notes
    assert note.startswith("a ended early: a: no such model. Missing: a, launch 1")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("aa", "one", "itl.mean"), "unknown server 'aa'. Did you mean 'a'? Known: a, b"),
        (("a", "once", "itl.mean"), "unknown traffic 'once'. Did you mean 'one'? Known: one, two"),
        (("a", "one", "itl.maen"), "unknown figure 'itl.maen'. Did you mean 'itl.mean'?"),
    ],
)
def test_values_refuses_a_name_that_the_campaign_does_not_have(stage, tools, asked, told):
    """An empty answer would let all(...) pass."""
    result = run_campaign(CampaignSpec((A, B), (ONE, TWO)), Plan(1, 1), tools)
    with pytest.raises(UnknownNameError) as caught:
        result.values(*asked)
    assert str(caught.value).startswith(told)


def test_values_of_what_is_known_and_absent_are_none(stage, tools):
    """A figure that no replay had; a server whose launch never came."""
    stage.fail_at, stage.error = "launch b1", ServerStartError("b: no such model")
    result = run_campaign(CampaignSpec((A, B), (ONE,)), Plan(1, 1), tools)
    assert result.values("a", "one", "acceptance_rate") == ()
    assert result.values("b", "one", "itl.mean") == ()
