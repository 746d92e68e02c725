"""``--llmperf-plan``: told after collection, on any host; nothing is started or written."""

from __future__ import annotations

import pytest

from pytest_llmperf import random
from pytest_llmperf.model.baseline import Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Prompt, Request, Traffic
from pytest_llmperf.store.baselines import BaselineStore

H200 = Machine(gpu_model="NVIDIA H200", gpu_count=1)
# The one of conftest.py's suites.
BURST = random(
    "burst",
    num_prompts=24,
    max_concurrency=8,
    input_len=512,
    output_len=32,
    range_ratio={"input": 0.0, "output": 0.5},
)
SUITE = """
REAL = vllm("real", "Qwen/Qwen3-14B")
WIDE = vllm("wide", "Qwen/Qwen3-14B", "--tensor-parallel-size", "2")

@pytest.mark.gpu
@pytest.mark.llmperf(servers=[REAL, WIDE], traffic=[BURST], gate=["output_tps", "kv_tokens"])
def test_serving(llm_verdict):
    raise AssertionError("a plan runs no test")

@pytest.mark.gpu
@pytest.mark.skip(reason="not this week")
@pytest.mark.llmperf(servers=[REAL], traffic=[BURST])
def test_skipped(llm_verdict): ...

def test_other():
    raise AssertionError("a plan runs no test")
"""


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """Hide the host's GPUs, if it has any."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def accept(suite, machine):
    """Accept a night of ``real`` on ``burst`` on a machine with GPUs."""
    traffic = Traffic(BURST, (Request(0, 0, Prompt((1,), 1, 32)),))
    server = ServerSpec.of("real", "vllm", "Qwen/Qwen3-14B")
    launches = ((1000.0,), (1002.0,), (1001.0,))
    startups = ((100.0,), (50.0,), (60.0,))
    rates = ((4.0,), (4.0,), (4.0,))
    night = Night(
        "2026-11-30",
        "host",
        {"output_tps": launches, "startup_s": startups, "request_rate": rates},
    )
    BaselineStore(suite.pytester.path / "baselines").accept(machine, server, traffic, night)


def test_it_is_told_on_a_host_without_gpus_and_nothing_else_happens(suite):
    """-m gpu is no error here; exit status 0, no test, no run folder, no report."""
    suite.write(SUITE)
    result = suite.collect("--llmperf-plan", "-m", "gpu")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(deselected=1)
    text = suite.text(result)
    # 150 + 2 · 75 s of launches; three waves of 32 tokens of 20 ms are 1.92 s a replay.
    assert "real: 3 launches × 3 replays, needs 1 GPU: 5.3 GPU minutes in 5 min 19 s" in text
    assert "wide: 3 launches × 3 replays, needs 2 GPUs: 10.6 GPU minutes in 5 min 19 s" in text
    assert "burst: 24 prompts, 2 s a replay (assumed)" in text
    assert "no baseline: first night, NO_BASELINE (the machine is not known)" in text
    assert "machine: this host has no GPU" in text
    assert "total: 16.0 GPU minutes in 10 min 38 s, 2 figures gated, α 1 % each" in text
    assert "skipped: 1 × not this week" in text
    assert not (suite.pytester.path / ".llmperf").exists()


def test_k_q_and_n_make_no_difference(suite):
    """-k selects, -q leaves only the plan, -n is left away: workers would have the tests."""
    suite.write(SUITE)
    result = suite.collect(
        "--llmperf-plan", "-q", "-n", "2", "--dist", "loadgroup", "-k", "test_serving and wide"
    )
    assert result.ret == pytest.ExitCode.OK
    text = suite.text(result)
    assert "wide: 3 launches" in text
    assert "real: 3 launches" not in text
    assert "total: 10.6 GPU minutes" in text


def test_the_only_machine_with_baselines_is_taken_and_said(suite):
    """Its night gives noise, tolerance and costs: 100 s, then 55 s; 24 / 4 = 6 s a replay."""
    accept(suite, H200)
    accept(suite, Machine(cpu_model="some", simulated=True))
    suite.write(SUITE)
    text = suite.text(suite.collect("--llmperf-plan", "-k", "test_serving and real"))
    assert f"machine: this host has no GPU; {H200.key} is taken, the only one in" in text
    assert "launch: 1 min 40 s, then 55 s each (measured, accepted night 2026-11-30)" in text
    assert "burst: 24 prompts, 6 s a replay (measured, accepted night 2026-11-30)" in text
    assert "against 1 accepted night:" in text
    assert "output_tps  not gateable: smallest detectable change" in text
    assert "noise assumed" in text


def test_of_several_machines_one_is_chosen(suite):
    """By its folder's name; without that choice they are named, and a typo is told."""
    two = Machine(gpu_model="NVIDIA L40S", gpu_count=2)
    accept(suite, H200)
    accept(suite, two)
    suite.write(SUITE)
    open_choice = suite.text(suite.collect("--llmperf-plan"))
    assert f"choose one with --llmperf-plan-machine: {H200.key}, {two.key}" in open_choice
    chosen = suite.text(suite.collect("--llmperf-plan", "--llmperf-plan-machine", two.key))
    assert f"machine: {two.key}, as asked" in chosen
    assert "against 1 accepted night:" in chosen
    wrong = suite.collect("--llmperf-plan", "--llmperf-plan-machine", "h100")
    assert wrong.ret == pytest.ExitCode.USAGE_ERROR
    assert "unknown machine for --llmperf-plan-machine 'h100'" in suite.text(wrong)


def test_a_rehearsal_is_planned_by_what_it_took_and_announced(suite):
    """Two lines before it measures; afterwards a plan knows the times of that run.

    Assumed: two launches of 2 s, with 2 replays and a third of one of 1.92 s each, are 13 s.
    """
    suite.write()
    first = suite.run("--llmperf-accept")
    first.assert_outcomes(passed=1)
    said = [line for line in first.outlines if line.startswith("llmperf: plan: ")]
    assert "llmperf: plan: 0.0 GPU minutes in 13 s, " in said[0]
    assert said[1] == "llmperf: plan: 1 first night, NO_BASELINE"
    (run,) = suite.runs
    result = suite.run("--llmperf-plan")
    text = suite.text(result)
    assert f"(measured, run {run.name})" in text
    assert "assumed)" not in text
    assert "against 1 accepted night:" in text
    assert suite.runs == [run]


def test_ci_gets_the_announcement_and_quiet_does_not(suite, monkeypatch):
    """What a night costs belongs into its log."""
    suite.write("""
    @pytest.mark.llmperf(servers=[sim("b", "Qwen/Qwen3-14B", "--no-such")], traffic=[BURST])
    def test_serving(llm_verdict): ...
    """)
    monkeypatch.setenv("CI", "true")
    assert "llmperf: plan: 0.0 GPU minutes" in suite.text(suite.collect())
    assert "llmperf: plan:" not in suite.text(suite.collect("-q"))


def test_two_tests_of_one_traffic_share_its_replays(suite):
    """The strictest tolerance is told, figures that both judge count twice for alpha."""
    suite.write("""
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST], gate={"output_tps": 0.3, "kv_tokens": 0.1})
    def test_one(llm_verdict): ...

    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST], gate={"output_tps": 0.2, "itl.mean": 0.1})
    def test_two(llm_verdict): ...
    """)
    suite.write(suite.pytester.path.joinpath("test_suite.py").read_text(), head="")
    result = suite.run("--llmperf-accept", launches=1, replays=1)
    result.assert_outcomes(passed=2, errors=2)  # measured, never judged
    text = suite.text(suite.run("--llmperf-plan", launches=1, replays=1))
    assert text.count("burst: 24 prompts") == 1
    assert "3 figures gated" in text


def test_errors_of_the_collection_come_first(suite):
    """A suite that cannot be collected has no plan; one that is taken in part runs no test."""
    suite.write(SUITE)
    suite.pytester.makepyfile(test_broken="import nothing_of_that_name")
    result = suite.collect("--llmperf-plan")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "llmperf plan" not in suite.text(result)
    partly = suite.collect("--llmperf-plan", "--continue-on-collection-errors")
    partly.assert_outcomes(errors=1)
    assert "real: 3 launches" in suite.text(partly)


def test_without_tests_of_ours_there_is_nothing_to_plan(suite):
    """And said; nothing collected at all is pytest's status 5."""
    suite.write("def test_other(): raise AssertionError")
    result = suite.collect("--llmperf-plan")
    assert result.ret == pytest.ExitCode.OK
    assert "no test that uses a llm_… fixture is selected" in suite.text(result)
    empty = suite.collect("--llmperf-plan", "-m", "gpu", "-k", "nothing")
    assert empty.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "judged nothing" not in suite.text(empty)


def test_a_pair_and_a_server_of_its_own_are_in_the_plan(suite):
    """Both servers of a comparison, and the launch for llm_server."""
    suite.write("""
    OTHER = vllm("other", "Qwen/Qwen3-14B")
    REAL = vllm("real", "Qwen/Qwen3-14B")

    @pytest.mark.llmperf(servers=[OTHER], against=REAL, traffic=[BURST], gate=["output_tps"])
    def test_pays(llm_comparison): ...

    @pytest.mark.llmperf(servers=[OTHER])
    def test_alive(llm_server): ...
    """)
    text = suite.text(suite.collect("--llmperf-plan"))
    assert "other-vs-real: 3 launches × 3 replays of each, in turns, needs 1 GPU" in text
    assert "other: 1 launch for llm_server, needs 1 GPU: 2.5 GPU minutes" in text
    assert "1 figure gated" in text
