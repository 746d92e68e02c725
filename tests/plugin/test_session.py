"""A session as a whole: exit codes, artifacts, xdist, what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.helpers import family


def wait_until(condition, seconds):
    """Return whether ``condition`` came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return condition()


def test_gpu_tests_on_a_host_without_gpus_are_an_error(suite):
    """Engine vllm with -m gpu: a runner without its GPU must not be green."""
    suite.write("""
    REAL = vllm("real", "Qwen/Qwen3-14B")

    @pytest.mark.gpu
    @pytest.mark.llmperf(servers=[REAL], traffic=[BURST])
    def test_serving(llm_verdict):
        llm_verdict.check()
    """)
    result = suite.collect("-m", "gpu")
    if "needs 1 GPU" not in suite.text(result):
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "-m gpu on a host without GPUs" in suite.text(result)
    suite.collect().assert_outcomes(skipped=1)


def test_a_gpu_session_that_judged_nothing_is_no_success(suite):
    """Not even when everything was skipped, deselected, or had no baseline."""
    suite.write("""
    @pytest.mark.gpu
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    def test_serving(llm_verdict):
        llm_verdict.check()

    def test_other(): ...
    """)
    result = suite.run("-m", "gpu", launches=1, replays=1)
    result.assert_outcomes(skipped=1, deselected=1)
    assert result.ret == 1
    assert "judged nothing" in suite.text(result)
    assert suite.collect("-m", "gpu", "-k", "nothing").ret == 1
    assert suite.collect("-m", "not gpu").ret == 0


def test_a_run_leaves_artifacts_and_a_report_and_nothing_else(suite):
    """The figures can be recomputed, the page is there, no process is left."""
    suite.write()
    result = suite.run("--llmperf-accept")
    result.assert_outcomes(passed=1)
    outcome = suite.outcome()
    assert outcome["status"] == "finished"
    (run,) = suite.runs
    assert len(list(run.glob("campaigns/base/base/launch-*/burst-*.parquet"))) == 4
    report = suite.pytester.path / ".llmperf" / "report"
    assert (report / "index.html").is_file()
    assert f"report: {report}" in suite.text(result)
    assert family(suite.pytester.path) == []


def test_killed_pytest_leaves_no_server(suite):
    """kill -9 in a replay: supervisor, server and load are gone in 15 seconds."""
    suite.write(
        """
    LONG = random("long", num_prompts=4, max_concurrency=4, input_len=8, output_len=20000)

    @pytest.mark.llmperf(servers=[BASE], traffic=[LONG])
    def test_serving(llm_verdict):
        llm_verdict.check()
    """.replace("20000", "4000")
    )
    command = [sys.executable, "-m", "pytest", "-q"]
    process = subprocess.Popen(
        command, cwd=suite.pytester.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        names = lambda: " ".join(w for p in family(suite.pytester.path) for w in _words(p))  # noqa: E731
        assert wait_until(lambda: "replay.worker" in names(), 20), "no replay began"
        assert "engines.sim" in names()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert wait_until(lambda: not family(suite.pytester.path), 15), names()


def _words(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_workers_share_a_run_and_keep_a_servers_tests_together(suite):
    """-n 2 with loadgroup: one run folder, each server launched by one worker."""
    suite.write("""
    OTHER = sim("other", "Qwen/Qwen3-14B", *SLOW)
    SHORT = random("short", num_prompts=8, max_concurrency=8, input_len=8, output_len=8)

    @pytest.mark.llmperf(servers=[BASE, OTHER], traffic=[BURST, SHORT])
    def test_serving(llm_verdict):
        llm_verdict.check(slo={"ttft.p99": "< 9 s"}, baseline=False)
    """)
    result = suite.run("-n", "2", "--dist", "loadgroup", launches=1, replays=1)
    result.assert_outcomes(passed=4)
    (run,) = suite.runs
    assert len(list(run.glob("campaigns/*/*/launch-*"))) == 2
    assert len(suite.outcome()["verdicts"]) == 4
    refused = suite.collect("-n", "2")
    assert "pytest -n needs --dist loadgroup" in suite.text(refused)
    assert refused.ret != 0


def test_options_are_ini_values_too(suite):
    """llmperf_launches in the ini file is --llmperf-launches."""
    suite.pytester.makeini("[pytest]\nllmperf_launches = 1\nllmperf_replays = 1\n")
    suite.write()
    suite.collect().assert_outcomes(skipped=1)
    assert len(list(suite.runs[-1].glob("campaigns/*/*/launch-*"))) == 1


def test_a_rehearsal_cuts_the_traffic(suite):
    """--llmperf-prompts 8: fewer requests, another digest."""
    suite.write()
    suite.run(launches=1, replays=1)
    suite.run("--llmperf-prompts", "8", launches=1, replays=1)
    counts = {run.name: traffic for run in suite.runs for traffic in _traffics(run)}
    whole, cut = counts.values()
    assert (whole["count"], cut["count"]) == (24, 8)
    assert whole["digest"] != cut["digest"]


def _traffics(run):
    import json

    return json.loads((run / "run.json").read_text())["traffics"]


def test_a_running_server_is_at_hand(suite):
    """llm_server answers, is shared by tests in a row, and is gone at the end."""
    suite.write("""
    import urllib.request

    @pytest.mark.llmperf(servers=[BASE])
    class TestServer:
        def test_health(self, llm_server):
            assert urllib.request.urlopen(llm_server.target.base_url + "/health").status == 200
        def test_same(self, llm_server):
            llm_server.check_alive()
    """)
    suite.run().assert_outcomes(passed=2)
    assert family(suite.pytester.path) == []


def test_the_campaign_is_at_hand(suite):
    """llm_campaign gives every figure as launches x replays."""
    suite.write("""
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    def test_values(llm_campaign):
        values = llm_campaign.values("base", "burst", "output_tps")
        assert [len(row) for row in values] == [3, 3]
    """)
    suite.run(launches=2, replays=3).assert_outcomes(passed=1)


def test_a_path_among_the_options_does_not_move_the_folders(suite, tmp_path):
    """pytest takes it for a test path and its parent for the rootdir; ours stay at home."""
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    (elsewhere / "pytest.ini").write_text("[pytest]\n")
    suite.write()
    result = suite.run("--llmperf-vllm", str(elsewhere), launches=1, replays=1)
    result.assert_outcomes(skipped=1)
    assert len(suite.runs) == 1
    assert "Write --llmperf-vllm=PATH" in suite.text(result)


def test_an_interrupted_run_says_what_is_missing(suite):
    """Ctrl-C in a replay: the server is gone, the run says how far it got."""
    suite.write("""
    LONG = random("long", num_prompts=4, max_concurrency=4, input_len=8, output_len=4000)

    @pytest.mark.llmperf(servers=[BASE], traffic=[LONG])
    def test_serving(llm_verdict):
        llm_verdict.check()
    """)
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "--llmperf-launches=1"],
        cwd=suite.pytester.path,
        stdout=subprocess.PIPE,
        text=True,
        # A shell's background jobs, and all that they start, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )

    def loading():
        return any("replay.worker" in w for p in family(suite.pytester.path) for w in _words(p))

    try:
        assert wait_until(loading, 20), "no replay began"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "interrupted. Missing: base, launch 1 of 1: 0 of 3 replays done" in output
    assert wait_until(lambda: not family(suite.pytester.path), 10)
    assert suite.outcome()["outcome"] == "interrupted"


def test_a_second_interrupt_does_not_make_the_run_passed(suite):
    """While pytest tells of the first Ctrl-C: its exit status is then still that of success."""
    suite.pytester.makeconftest("""
    from pytest_llmperf.plugin import session

    def run_campaign(*_):
        raise KeyboardInterrupt

    session.run_campaign = run_campaign

    def pytest_keyboard_interrupt():
        raise KeyboardInterrupt
    """)
    suite.write()
    suite.run()
    assert suite.outcome()["outcome"] == "interrupted"


def test_a_server_that_cannot_be_had_is_told_once(suite):
    """llm_server's set-up fails with the launch's words, and no traceback around them."""
    suite.write("""
    @pytest.mark.llmperf(servers=[vllm("gone", "m")])
    def test_health(llm_server): ...
    """)
    result = suite.pytester.runpytest_subprocess("--llmperf-vllm=/nowhere/vllm")
    result.assert_outcomes(errors=1)
    assert "During handling of the above exception" not in suite.text(result)
    assert suite.text(result).count("/nowhere/vllm") >= 1


def test_what_cannot_be_is_told_under_xdist_too(suite):
    """Two servers of one name: each test ends with the complaint, no worker crashes."""
    suite.write("""
    OTHER = sim("base", "Qwen/Qwen3-14B", "--max-num-seqs", "4")

    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    def test_one(llm_verdict): ...

    @pytest.mark.llmperf(servers=[OTHER], traffic=[BURST])
    def test_two(llm_verdict): ...
    """)
    result = suite.collect("-n", "2", "--dist", "loadgroup")
    result.assert_outcomes(errors=2)
    assert "two servers are named 'base'" in suite.text(result)


def test_under_xdist_a_servers_tests_share_its_launches(suite):
    """Whatever pytest and xdist make of groups: one worker a server, one launch, one name a test."""
    suite.write("""
    OTHER = sim("other", "Qwen/Qwen3-14B", *SLOW)
    SHORT = random("short", num_prompts=4, max_concurrency=4, input_len=8, output_len=8)

    @pytest.mark.llmperf(servers=[BASE, OTHER], traffic=[BURST, SHORT])
    def test_serving(llm_verdict):
        llm_verdict.check(slo={"ttft.p99": "< 5 s"}, baseline=False)
    """)
    options = ("-n", "2", "--dist", "loadgroup")
    suite.run(*options, launches=1, replays=1).assert_outcomes(passed=4)
    outcome = suite.outcome()
    launches = [launch["folder"] for launch in outcome["launches"]]
    assert launches == ["campaigns/base/base/launch-1", "campaigns/other/other/launch-1"]
    assert [len(launch["replays"]) for launch in outcome["launches"]] == [2, 2]
    tests = sorted(verdict["test"] for verdict in outcome["verdicts"])
    assert tests[0] == "test_suite.py::test_serving[base/burst]"


def test_without_xdist_strict_markers_hold(suite):
    """No marker of a plugin that is not there."""
    suite.write()
    options = ("-p", "no:xdist", "--strict-markers", "-W", "error")
    suite.run(*options, launches=1, replays=1).assert_outcomes(skipped=1)
    suite.run(*options, "-k", "nothing").assert_outcomes(deselected=1)


def test_times_that_a_launch_may_take_are_options(suite):
    """They reach the launch that a test asks for."""
    suite.write("""
    from pytest_llmperf.plugin.session import session_of

    def test_settings(request):
        settings = session_of(request.config)._tools.settings
        times = (settings.startup_timeout, settings.stop_timeout, settings.lease_timeout)
        assert times == (7.0, 8.0, 9.0)
    """)
    options = (
        "--llmperf-startup-timeout=7",
        "--llmperf-stop-timeout=8",
        "--llmperf-lease-timeout=9",
    )
    suite.collect(*options).assert_outcomes(passed=1)


def test_a_url_is_one_server(suite):
    """Two names for it would be judged as two servers."""
    suite.write("""
    @pytest.mark.llmperf(servers=[attach("one"), attach("two")], traffic=[BURST])
    def test_serving(llm_verdict): ...
    """)
    result = suite.collect("--llmperf-base-url=http://127.0.0.1:9")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "one and two would both be the one server" in suite.text(result)
