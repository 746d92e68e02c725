"""N-gram speculation on a real vLLM: what is accepted, and which of two losses a verdict names.

Three nights of one server: one accepted; one whose engine is stopped half of the time, which
makes its steps slower; one whose drafter proposes a single token instead of four, so that less
can be accepted.
"""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import contextmanager, suppress

import psutil
import pytest

SUITE = """
import pytest
from pytest_llmperf import sharegpt, vllm

WORDS = ("--max-model-len", "2048", "--max-num-seqs", "8", "--enforce-eager")
CPU = {"VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
DRAFTER = '{"method": "ngram", "num_speculative_tokens": TOKENS, "prompt_lookup_max": 4}'
NGRAM = vllm("smollm2-ngram", "HuggingFaceTB/SmolLM2-135M-Instruct", *WORDS,
             "--speculative-config", DRAFTER, env=CPU)
CHAT = sharegpt("chat", num_prompts=6, max_concurrency=2, num_warmups=2, output_len=96)

@pytest.mark.llmperf(servers=[NGRAM], traffic=[CHAT])
def test_speculation(llm_verdict):
    llm_verdict.check()
"""
PAUSE_S = 0.02


class Night:
    """One session's verdict, figures and files."""

    def __init__(self, home):
        run = max((home / ".llmperf/runs").iterdir(), key=lambda path: path.stat().st_mtime)
        self.folder = next(run.glob("campaigns/*/*/launch-1"))
        self.figures = json.loads((self.folder / "chat-1.json").read_text())["figures"]
        (verdict,) = (run / "verdicts").glob("*.json")
        written = json.loads(verdict.read_text())
        self.message = written["message"]
        self.findings = {found["figure"]: found for found in written["verdict"]["findings"]}

    @property
    def answers(self):
        """What the probe was answered."""
        return json.loads((self.folder / "chat.answers.json").read_text())

    def rise(self, counter):
        """What a counter rose by over the replay, read plainly from the stored pages."""
        before, after = (
            sum(map(float, re.findall(rf"^vllm:{counter}{{[^}}]*}} (\S+)$", text, re.M)))
            for text in (
                (self.folder / f"chat-1.metrics-{when}.txt").read_text()
                for when in ("before", "after")
            )
        )
        return after - before


LOGS = ".llmperf/runs/*/campaigns/*/*/launch-1/server.log"


@contextmanager
def slowed(home):
    """Once a new server is up, stop its engine and let it go on, 20 ms each, until it ends."""
    known = set(home.glob(LOGS))
    over, pauses = threading.Event(), []

    def engine():
        said = "".join(log.read_text() for log in set(home.glob(LOGS)) - known)
        if "Application startup complete" not in said:
            return []
        words = re.findall(r"\((?:EngineCore|Worker)\S* pid=(\d+)\)", said)
        return [psutil.Process(pid) for pid in set(map(int, words))]

    def slow():
        while not (processes := engine()):
            if over.wait(0.1):
                return
        with suppress(psutil.NoSuchProcess):
            while not over.wait(PAUSE_S):
                for process in processes:
                    process.suspend()
                time.sleep(PAUSE_S)
                for process in processes:
                    process.resume()
                pauses.append(PAUSE_S)

    slowing = threading.Thread(target=slow)
    slowing.start()
    try:
        yield
    finally:
        over.set()
        slowing.join()
    assert pauses, "the engine was never stopped"


@pytest.fixture(scope="module")
def nights(real_vllm, tmp_path_factory):
    """The three nights, by what is special about each."""
    home = tmp_path_factory.mktemp("speculation")
    (home / "pytest.ini").write_text("[pytest]\n")
    suite = home / "test_suite.py"
    taken = {}

    suite.write_text(SUITE.replace("TOKENS", "4"))
    real_vllm.run(home, "--llmperf-accept")
    taken["accepted"] = Night(home)

    with slowed(home):
        real_vllm.run(home)
    taken["slower engine"] = Night(home)

    suite.write_text(SUITE.replace("TOKENS", "1"))
    real_vllm.run(home)
    taken["worse drafter"] = Night(home)
    return taken


def test_the_acceptance_length_is_what_vllm_counted(nights):
    """More than one token a draft, and at most five; from the stored pages of /metrics."""
    night = nights["accepted"]
    drafts = night.rise("spec_decode_num_drafts_total")
    accepted = night.rise("spec_decode_num_accepted_tokens_total")
    assert drafts > 0
    assert night.figures["acceptance_length"] == pytest.approx(1 + accepted / drafts)
    assert 1 < night.figures["acceptance_length"] <= 5
    assert night.figures["acceptance_rate"] == pytest.approx(
        accepted / night.rise("spec_decode_num_draft_tokens_total")
    )
    # The engine's own time of a step is what its client sees between two chunks.
    assert night.figures["step_time"] == pytest.approx(night.figures["icl.mean"], rel=0.05)
    made_up = night.figures["step_time"] / night.figures["tokens_per_step"]
    assert night.figures["itl.mean"] == pytest.approx(made_up, rel=0.1)


def test_two_launches_answer_the_same(nights):
    """Four greedy answers of 16 tokens, known by their ids; the second while it was slowed."""
    first, second = (nights[name].answers for name in ("accepted", "slower engine"))
    digests = [answer["digest"] for answer in first["answers"]]
    assert len(set(digests)) == 4
    assert all(digest.startswith("ids:") for digest in digests)
    assert [answer["digest"] for answer in second["answers"]] == digests
    assert (first["nonsense"], first["error"]) == (None, None)


def test_a_slower_engine_is_not_taken_for_a_worse_drafter(nights):
    """Steps take longer, drafts are accepted as before, and the message says where to look."""
    night = nights["slower engine"]
    assert night.findings["step_time"]["status"] == "REGRESSED", night.message
    assert night.findings["step_time"]["change"] > 0.3, night.message
    assert abs(night.findings["acceptance_length"]["change"]) < 0.05, night.message
    assert "look at the engine, not at the drafter" in night.message


def test_a_worse_drafter_is_not_taken_for_a_slower_engine(nights):
    """Half as much is accepted; a step's time moves by what this host's noise is, if at all."""
    night = nights["worse drafter"]
    assert night.findings["acceptance_length"]["status"] == "REGRESSED", night.message
    assert night.findings["acceptance_length"]["change"] < -0.3, night.message
    assert night.findings["step_time"]["change"] < 0.3, night.message
    assert "the drafter is accepted less" in night.message
