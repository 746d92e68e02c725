"""A suite in a folder of its own, run by a pytest of its own, on the simulated engine."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

# A server that is ready at once; three waves of eight requests, a second and a half a replay.
HEAD = """
import pytest
from pytest_llmperf import attach, random, sharegpt, sim, vllm

SLOW = ("--sim-launch-noise", "0.001", "--sim-replay-noise", "0.001")
BASE = sim("base", "Qwen/Qwen3-14B", *SLOW)
# Of unequal lengths: answers that end together would leave the engine idle, and how many of
# their successors make its next step would be a race.
BURST = random("burst", num_prompts=24, max_concurrency=8, input_len=512, output_len=32,
               range_ratio={"input": 0.0, "output": 0.5})
"""

JUDGED = """
@pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
def test_serving(llm_verdict):
    llm_verdict.check(slo={"ttft.p99": "< 5 s"})
"""


class Suite:
    """Writes test files and runs pytest on them."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester

    def write(self, body: str = JUDGED, head: str = HEAD) -> None:
        """Make the suite this one file."""
        self.pytester.makepyfile(test_suite=head + textwrap.dedent(body))

    def run(self, *options: str, launches: int = 2, replays: int = 2) -> pytest.RunResult:
        """Run pytest in a process of its own."""
        plan = ("--llmperf-launches", str(launches), "--llmperf-replays", str(replays))
        return self.pytester.runpytest_subprocess("-rA", *plan, *options)

    def collect(self, *options: str) -> pytest.RunResult:
        """Run pytest for what needs no measuring."""
        return self.pytester.runpytest_subprocess("-rA", *options)

    @property
    def runs(self) -> list[Path]:
        """The folders of the runs so far, oldest first."""
        return sorted((self.pytester.path / ".llmperf" / "runs").glob("*"))

    def outcome(self) -> dict:
        """Return the newest run.json."""
        return json.loads((self.runs[-1] / "run.json").read_text())

    def text(self, result: pytest.RunResult) -> str:
        """Return all that a run printed."""
        return "\n".join([*result.outlines, *result.errlines])


@pytest.fixture
def suite(pytester, monkeypatch) -> Suite:
    """An empty suite; no option of the outer run leaks in."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return Suite(pytester)
