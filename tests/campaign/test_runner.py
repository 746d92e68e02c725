"""The order of work, and what is kept when it ends early (no server is started here)."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest

from pytest_llmperf.campaign import CampaignSpec, Plan, Tools, run_campaign
from pytest_llmperf.campaign import runner as runner_module
from pytest_llmperf.errors import ServerDiedError, ServerStartError
from pytest_llmperf.launch import LaunchSettings, RunningServer
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

    def replay(self, traffic, target, **_):
        self._do(f"replay {self.now} {traffic.spec.name}")
        record = RequestRecord(
            0, 0, 0, (10_000_000, 20_000_000), (1, 1), 20_000_000, 2, output_tokens=2
        )
        return Replay(
            traffic.spec.name, traffic.digest, (record,), None, None, "kernel", HEALTH, "now"
        )


@pytest.fixture
def stage(monkeypatch):
    """A campaign's hands replaced; everything else is the real thing."""
    stage = Stage()
    for name in ("launch", "warm_up", "replay"):
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
        "warm a1 two",
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
    """Its figures stay in the artifacts; the reason goes with them."""
    monkeypatch.setattr(
        runner_module, "invalid_reason", lambda replay, spec: "client-bound: too slow"
    )
    result = run_campaign(CampaignSpec((A,), (ONE,)), Plan(1, 1), tools)
    assert result.invalid("a", "one") == ["launch 1, replay 1: client-bound: too slow"]
