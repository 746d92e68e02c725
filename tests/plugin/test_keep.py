"""``--llmperf-keep-servers``: the next session does not wait; nothing of it is a night."""

from __future__ import annotations

import json
import os
import time

import pytest

from pytest_llmperf.launch.shelf import Shelf, kept_servers
from tests.helpers import family

KEEP = "--llmperf-keep-servers"
OWN = """
@pytest.mark.llmperf(servers=[BASE])
def test_alive(llm_server):
    print("SERVER", llm_server.pid)
    llm_server.check_alive()
"""


@pytest.fixture
def servers(suite):
    """Return a function: the kept servers of the suite. Those that are left are ended."""
    folder = suite.pytester.path / ".llmperf" / "servers"
    yield lambda: kept_servers(folder)
    if kept_servers(folder):
        assert suite.collect("--llmperf-stop-servers").ret == 0
    assert until(lambda: not family(suite.pytester.path))


def until(condition, seconds=10):
    """Return whether it came true in time: a supervisor needs a moment to go."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def test_a_server_stays_for_the_next_session(suite, servers):
    """Told with pid, port and how to end it; the same process serves llm_server again."""
    suite.write(OWN)
    first = suite.collect(KEEP)
    first.assert_outcomes(passed=1)
    (kept,) = servers()
    text = suite.text(first)
    assert f"kept: server base, pid {kept.pid[0]}, port {kept.target.port}, until it is" in text
    assert "until it is 30 min without a session" in text
    assert "pytest --llmperf-stop-servers ends them now" in text
    second = suite.collect(KEEP)
    second.assert_outcomes(passed=1)
    assert f"SERVER {kept.pid[0]}" in suite.text(second)
    assert kept.target.api_key not in suite.text(first) + suite.text(second)
    stopped = suite.collect("--llmperf-stop-servers")
    assert stopped.ret == pytest.ExitCode.OK
    assert f"llmperf: kept server base (pid {kept.pid[0]}) was ended" in suite.text(stopped)
    assert "test session starts" not in suite.text(stopped)
    assert servers() == ()
    assert "no kept server runs" in suite.text(suite.collect("--llmperf-stop-servers"))


def test_a_campaign_on_it_is_one_launch_and_marked(suite, servers):
    """One launch whatever was asked, with the caveat in the verdict; the log is in the run."""
    suite.write("""
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    def test_serving(llm_verdict):
        llm_verdict.check(slo={"ttft.p99": "< 5 s"}, baseline=False)
    """)
    for session in (1, 2):
        result = suite.run(KEEP, launches=3, replays=1)
        result.assert_outcomes(passed=1)
        text = suite.text(result)
        assert "kept servers: 1 launch of each, and no night to accept" in text
        assert ("is used again" in text) is (session == 2)
        (launch,) = suite.runs[-1].glob("campaigns/base/base/launch-*")
        assert "vLLM" in (launch / "server.log").read_text()
        facts = json.loads((launch / "launch.json").read_text())["facts"]
        assert (facts["startup_s"] is None) is (session == 2)
        (verdict,) = suite.outcome()["verdicts"]
        assert any("its launches are not launches" in caveat for caveat in verdict["caveats"])
    assert len(servers()) == 1


def test_another_specification_is_started_anew(suite, servers):
    """What is measured is what the suite says now."""
    suite.write(OWN)
    suite.collect(KEEP).assert_outcomes(passed=1)
    (before,) = servers()
    result = suite.collect(KEEP, "--llmperf-server-args", "--slowdown 1.5")
    result.assert_outcomes(passed=1)
    (after,) = servers()
    assert before.pid != after.pid
    assert "kept server base was started otherwise: it is ended and started anew" in suite.text(
        result
    )


def test_it_ends_after_the_time_set(suite, servers):
    """--llmperf-keep-timeout, counted from the end of the last session."""
    suite.write(OWN)
    suite.collect(KEEP, "--llmperf-keep-timeout", "1").assert_outcomes(passed=1)
    assert until(lambda: servers() == ())
    assert until(lambda: not family(suite.pytester.path))


def test_the_idle_time_told_is_the_servers(suite, servers):
    """Two sessions with other times: what was said at its start holds."""
    suite.write(OWN)
    suite.collect(KEEP, "--llmperf-keep-timeout", "1200").assert_outcomes(passed=1)
    second = suite.collect(KEEP, "--llmperf-keep-timeout", "60")
    assert "until it is 20 min without a session" in suite.text(second)
    assert servers()[0].idle == 1200


def test_a_server_of_another_version_is_stopped(suite, servers):
    """Its state has a key that this version does not know; nothing of it stays."""
    suite.write(OWN)
    suite.collect(KEEP).assert_outcomes(passed=1)
    state = suite.pytester.path / ".llmperf" / "servers" / "base" / "server.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "colour": "red"}))
    stopped = suite.collect("--llmperf-stop-servers")
    assert stopped.ret == pytest.ExitCode.OK
    assert f"kept server base (its state is unreadable: {state}) was ended" in suite.text(stopped)
    assert not family(suite.pytester.path)
    assert not state.exists()
    assert "no kept server runs" in suite.text(suite.collect("--llmperf-stop-servers"))


def test_one_in_use_is_not_stopped(suite, servers):
    """Told with who uses it, and no success."""
    suite.write(OWN)
    suite.collect(KEEP).assert_outcomes(passed=1)
    shelf = Shelf(suite.pytester.path / ".llmperf" / "servers" / "base")
    assert shelf.take(5)
    stopped = suite.collect("--llmperf-stop-servers")
    shelf.let_go()
    assert stopped.ret == pytest.ExitCode.TESTS_FAILED
    assert f"is not free: another session (pid {os.getpid()}) has it" in suite.text(stopped)
    assert len(servers()) == 1


def test_it_is_refused_in_ci_and_with_accept(suite, monkeypatch):
    """With the reason, before anything is collected."""
    suite.write(OWN)
    accepting = suite.collect(KEEP, "--llmperf-accept")
    assert accepting.ret == pytest.ExitCode.USAGE_ERROR
    assert "must not become a night of the baseline" in suite.text(accepting)
    monkeypatch.setenv("CI", "true")
    refused = suite.collect(KEEP)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "--llmperf-keep-servers is for writing tests, and CI is set" in suite.text(refused)


def test_workers_keep_servers_too(suite, servers):
    """Under xdist the controller tells of them."""
    suite.write(OWN)
    result = suite.collect(KEEP, "-n", "2", "--dist", "loadgroup")
    result.assert_outcomes(passed=1)
    (kept,) = servers()
    assert f"kept: server base, pid {kept.pid[0]}" in suite.text(result)


def test_a_pair_keeps_both(suite, servers):
    """One after the other in one launch pair; the ratio's verdict is marked."""
    suite.write("""
    OTHER = sim("other", "Qwen/Qwen3-14B", *SLOW, "--slowdown", "1.5")

    @pytest.mark.llmperf(servers=[BASE], against=OTHER, traffic=[BURST])
    def test_faster(llm_comparison):
        llm_comparison.expect("output_tps", at_least=0.1)
    """)
    result = suite.run(KEEP, replays=1)
    result.stdout.re_match_lines_random([r"  total_tps [\d.]+ × other$"])
    assert sorted(server.name for server in servers()) == ["base", "other"]
    (verdict,) = suite.outcome()["verdicts"]
    assert any("kept server" in caveat for caveat in verdict["caveats"])
