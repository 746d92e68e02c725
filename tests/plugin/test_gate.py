"""Baselines from the outside: accepted, judged, caught (the simulated engine)."""

from __future__ import annotations

import re


def test_a_loss_is_caught_and_no_loss_is_not(suite):
    """10 % slower steps fail and name output TPS and ITL; without them five nights pass."""
    suite.write()
    first = suite.run("--llmperf-accept")
    first.assert_outcomes(passed=1)
    for _ in range(5):
        suite.run().assert_outcomes(passed=1)
    slower = suite.run("--llmperf-server-args", "--slowdown 1.10")
    slower.assert_outcomes(failed=1)
    text = suite.text(slower)
    assert "REGRESSED (SIMULATED): base on burst" in text
    for figure, sign in (("output_tps", "−"), ("itl.mean", "+")):
        line = next(
            line
            for line in text.splitlines()
            if line.strip().startswith(f"E {figure}") or line.strip().startswith(figure)
        )
        assert re.search(rf"{re.escape(sign)}\d+\.\d % \[.* … .*\]", line), line
    assert "changed since the baseline: arguments + --slowdown 1.10" in text


def test_the_first_night_has_no_baseline(suite):
    """Nothing to compare with is said, and is a skip; strict makes it a failure."""
    suite.write()
    suite.run(launches=1, replays=1).assert_outcomes(skipped=1)
    strict = suite.run("--llmperf-strict", launches=1, replays=1)
    strict.assert_outcomes(failed=1)
    assert "NO_BASELINE (SIMULATED): base on burst" in suite.text(strict)


def test_a_figure_that_gate_names_and_nobody_measured_fails(suite):
    """A server without speculation has no acceptance length: told, and no night is accepted."""
    suite.write("""
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST], gate=["output_tps", "acceptance_length"])
    def test_both(llm_verdict):
        llm_verdict.check()

    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST], gate=["acceptance_length"])
    def test_alone(llm_verdict):
        llm_verdict.check()
    """)
    result = suite.run("--llmperf-accept", launches=1, replays=1)
    result.assert_outcomes(failed=2)
    text = suite.text(result)
    assert "INVALID (SIMULATED): base on burst" in text
    assert "acceptance_length was not measured" in text
    assert "judged nothing" not in text
    assert not (suite.pytester.path / "baselines").exists()


def test_limits_are_judged_without_a_baseline(suite):
    """A broken limit fails with the limit in the message; one that holds passes."""
    suite.write("""
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    class TestLimits:
        def test_holds(self, llm_verdict):
            llm_verdict.check(slo={"ttft.p99": "< 5 s"}, baseline=False)
        def test_broken(self, llm_verdict):
            llm_verdict.check(slo={"itl.mean": "< 2 ms"}, baseline=False)
    """)
    result = suite.run()
    result.assert_outcomes(passed=1, failed=1)
    text = suite.text(result)
    assert "SLO_VIOLATED (SIMULATED): base on burst" in text
    assert "< 2 ms" in text
    assert len(list(suite.runs[-1].glob("campaigns/*/*/launch-*"))) == 2, "one campaign for both"


def test_a_comparison_is_judged_by_its_pairs(suite):
    """Half as slow again is no 1.2 times faster; launches are in turns A B B A."""
    suite.write("""
    OTHER = sim("other", "Qwen/Qwen3-14B", *SLOW, "--slowdown", "1.5")

    @pytest.mark.llmperf(servers=[BASE], against=OTHER, traffic=[BURST])
    def test_faster(llm_comparison):
        llm_comparison.expect("output_tps", at_least=1.2)

    @pytest.mark.llmperf(servers=[OTHER], against=BASE, traffic=[BURST])
    def test_slower(llm_comparison):
        llm_comparison.expect("output_tps", at_least=1.2)
    """)
    result = suite.run()
    result.assert_outcomes(passed=1, failed=1)
    assert "other on burst against base" in suite.text(result)
    assert (suite.runs[-1] / "campaigns" / "base-vs-other" / "other" / "launch-2").is_dir()
