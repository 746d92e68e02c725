"""Attached to a server whose timing is known: what was really sent is what is judged."""

from __future__ import annotations

import pytest

SUITE = """
HERE = attach("here")
STREAMS = random("streams", num_prompts=100, max_concurrency=50, input_len=8, output_len=60)

@pytest.mark.llmperf(servers=[HERE], traffic=[STREAMS])
def test_serving(llm_verdict):
    llm_verdict.check()
"""


def test_two_milliseconds_a_token_are_seen_and_none_are_not(suite, truthd):
    """22 ms a token against a night at 20 ms is REGRESSED on ITL and TPS; 20 ms passes."""
    suite.write(SUITE)

    def night(itl_s, *options):
        with truthd(0.05, itl_s) as server:
            return suite.run("--llmperf-base-url", server.target.base_url, *options, replays=2)

    night(0.020, "--llmperf-accept").assert_outcomes(passed=1)
    night(0.020).assert_outcomes(passed=1)
    slower = night(0.022)
    slower.assert_outcomes(failed=1)
    text = suite.text(slower)
    assert "REGRESSED: here on streams" in text
    assert "attached to a running server: its replays stand for one launch" in text
    verdict = suite.outcome()["verdicts"][0]
    status = {finding["figure"]: finding["status"] for finding in verdict["findings"]}
    assert status["itl.mean"] == status["itl.median"] == status["output_tps"] == "REGRESSED"
    assert status["ttft.p99"] != "REGRESSED"
    change = {f["figure"]: f["change"] for f in verdict["findings"]}
    # 60 tokens: 50 + 59 x 20 = 1230 ms become 50 + 59 x 22 = 1348 ms.
    assert change["itl.mean"] == pytest.approx(0.10, abs=0.01)
    assert change["output_tps"] == pytest.approx(1230 / 1348 - 1, abs=0.01)
