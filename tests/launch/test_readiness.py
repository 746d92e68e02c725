from __future__ import annotations

import json

import pytest

from pytest_llmperf import http
from pytest_llmperf.errors import ServerError, UsageError
from pytest_llmperf.launch import readiness
from pytest_llmperf.launch.readiness import NotReadyError, Wait, complete_facts, wait_until_ready
from pytest_llmperf.model.launch import LaunchFacts, Target

TARGET = Target("127.0.0.1", 1, "own")
CONFIG = (
    'vllm:cache_config_info{engine="%s",kv_cache_size_tokens="%s",kv_cache_max_concurrency="1.5"} 1'
)


class Server:
    """What ``http`` finds at a target that these tests describe, and a clock for the wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: object) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self.answers = answers
        monkeypatch.setattr(readiness, "time", self)
        for name in ("health", "models", "complete", "metrics", "get"):
            monkeypatch.setattr(http, name, lambda *_, _name=name, **__: self.answer(_name))

    def monotonic(self) -> float:
        """Be the time module."""
        return self.now

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def answer(self, name: str) -> object:
        """Give the next answer, the last again and again."""
        self.asked.append(name)
        answer = self.answers[name]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait(self, seconds: float = 10.0, **changes: bool) -> Wait:
        """Return a wait by this clock."""
        return Wait(self.now + seconds, self.pause, **changes)


ONE = ({"id": "own"},)


def test_ready_is_health_and_an_answer(monkeypatch):
    """Refused, unhealthy, busy, cut off: each is waited for, in that order."""
    server = Server(
        monkeypatch,
        health=[None, 503, 200],
        models=ONE,
        complete=[http.BusyError("503"), http.NoAnswerError("cut"), None],
    )
    assert wait_until_ready(TARGET, (), server.wait()) == TARGET
    assert [name for name in server.asked if name != "models"] == ["health"] * 3 + ["complete"] * 3
    assert 0 < server.now < 1


def test_a_missing_health_counts_where_it_may_be_missing(monkeypatch):
    """A server that is not vLLM may answer 404."""
    server = Server(monkeypatch, health=404, models=ONE, complete=None)
    assert wait_until_ready(TARGET, (), server.wait(health_needed=False)) == TARGET
    with pytest.raises(NotReadyError, match="its /health answers 404"):
        wait_until_ready(TARGET, (), server.wait())


def test_a_refusal_is_not_waited_for(monkeypatch):
    """Waiting does not change a 400."""
    server = Server(monkeypatch, health=200, models=ONE, complete=ServerError("answered 400"))
    with pytest.raises(ServerError, match="answered 400"):
        wait_until_ready(TARGET, (), server.wait())
    assert server.now == 0


def test_a_death_ends_the_wait(monkeypatch):
    """What the pause raises is not swallowed."""

    def died(_seconds: float) -> None:
        raise ServerError("died")

    server = Server(monkeypatch, health=None)
    with pytest.raises(ServerError, match="died"):
        wait_until_ready(TARGET, (), Wait(10.0, died))
    assert server.asked == ["health"]


@pytest.mark.parametrize(
    ("wanted", "model"), [((), "one"), (("two",), "two"), (("none", "two"), "two")]
)
def test_the_model_is_the_first_wanted_one_that_is_served(monkeypatch, wanted, model):
    """Without a wish it is the server's first."""
    served = ({"id": "one"}, {"id": "two"})
    server = Server(monkeypatch, health=200, models=served, complete=None)
    assert wait_until_ready(TARGET, wanted, server.wait()).model == model


def test_a_model_that_is_not_served_is_an_error(monkeypatch):
    """The message has what is served and how to say which it is."""
    server = Server(monkeypatch, health=200, models=({"id": "one"},), complete=None)
    with pytest.raises(UsageError, match="--llmperf-model 'mine=one'"):
        wait_until_ready(TARGET, ("mine",), server.wait())


def test_what_the_log_said_is_kept(monkeypatch):
    """HTTP only fills gaps; KV tokens and concurrency are summed over engines."""
    server = Server(
        monkeypatch,
        get=http.Answer(200, json.dumps({"version": "0.25.1"})),
        models=({"id": "own", "max_model_len": 8192},),
        metrics="\n".join(CONFIG % pair for pair in ((0, 100), (1, 50))) + "\n",
    )
    assert complete_facts(LaunchFacts(), TARGET) == LaunchFacts(
        engine_version="0.25.1", max_model_len=8192, kv_tokens=150, max_concurrency=3.0
    )
    said = LaunchFacts(engine_version="0.26", kv_tokens=7, max_concurrency=1.0, max_model_len=9)
    assert complete_facts(said, TARGET) == said
    assert "complete" not in server.asked


def test_a_server_that_tells_nothing_has_no_facts(monkeypatch):
    """Not vLLM: no version, no metrics."""
    Server(monkeypatch, get=http.Answer(404, "no"), models=(), metrics=None)
    assert complete_facts(LaunchFacts(), TARGET) == LaunchFacts()
    Server(monkeypatch, get=http.NoAnswerError(""), models=ServerError(""), metrics="<html>")
    assert complete_facts(LaunchFacts(), TARGET) == LaunchFacts()
