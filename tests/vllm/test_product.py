"""The product end to end on a real vLLM: nothing here is simulated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

SUITE = """
import pytest
from pytest_llmperf import sharegpt, vllm

WORDS = ("--max-model-len", "2048", "--max-num-seqs", "32", "--enforce-eager")
CPU = {"VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
CACHED = vllm("smollm2", "HuggingFaceTB/SmolLM2-135M-Instruct", *WORDS, env=CPU)
PLAIN = vllm("smollm2-no-cache", "HuggingFaceTB/SmolLM2-135M-Instruct", *WORDS,
             "--no-enable-prefix-caching", env=CPU)
CHAT = sharegpt("chat", num_prompts=20, request_rate=1, max_concurrency=10, num_warmups=4)

@pytest.mark.llmperf(servers=[CACHED, PLAIN], traffic=[CHAT])
def test_serving(llm_verdict):
    llm_verdict.check(slo={"ttft.p99": "< 30 s"})
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the suite, shared by the tests of this module."""
    folder = tmp_path_factory.mktemp("product")
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def test_a_night_is_accepted_and_the_next_is_judged(home, real_vllm):
    """Real ShareGPT, prefix cache on and off: figures, KV tokens, baseline, verdict, report."""
    first = real_vllm.run(home, "--llmperf-accept")
    assert first.returncode == 0, first.stdout + first.stderr
    baselines = sorted((home / "baselines").glob("*/*/chat.json"))
    assert [path.parent.name for path in baselines] == ["smollm2", "smollm2-no-cache"]
    stored = json.loads(baselines[0].read_text())
    figures = json.dumps(stored)
    for figure in ("kv_tokens", "ttft.p99", "itl.mean", "output_tps", "max_concurrency"):
        assert f'"{figure}"' in figures
    assert "93184" in figures, "KV tokens as vLLM's own log says them (2 GiB for SmolLM2-135M)"

    real_vllm.run(home)
    outcome = json.loads(max((home / ".llmperf/runs").glob("*/run.json")).read_text())
    statuses = {verdict["server"]: verdict["status"] for verdict in outcome["verdicts"]}
    assert set(statuses) == {"smollm2", "smollm2-no-cache"}
    # Two noisy cores: what the judgement is may vary, that there is one may not.
    assert set(statuses.values()) <= {"PASSED", "IMPROVED", "INCONCLUSIVE", "REGRESSED"}
    assert (home / ".llmperf/report/index.html").is_file()


def test_killed_pytest_leaves_no_server(home, real_vllm, processes):
    """kill -9 of pytest in a replay: vLLM, its engine and their supervisor are gone 15 s later."""
    command = real_vllm.pytest("-q", "-k", "no-cache")
    process = subprocess.Popen(command, cwd=home, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 180
        while time.monotonic() < end and not processes("pytest_llmperf.replay.worker"):
            time.sleep(0.2)
        assert processes("pytest_llmperf.replay.worker"), "no replay began"
        assert processes(str(real_vllm.model)), "no server runs"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    names = (str(real_vllm.model), "EngineCore", "VLLM::", "pytest_llmperf.launch.supervisor")
    end = time.monotonic() + 15
    while time.monotonic() < end and any(processes(name) for name in names):
        time.sleep(0.2)
    assert [processes(name) for name in names] == [[], [], [], []]
