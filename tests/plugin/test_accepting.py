"""What enters a baseline, and what several checks of one measurement come to."""

from __future__ import annotations

import json

from tests.plugin.conftest import HEAD

TWICE = """
@pytest.mark.llmperf(servers=[BASE], traffic=[BURST], gate=["kv_tokens"])
def test_memory(llm_verdict):
    llm_verdict.check()

@pytest.mark.llmperf(servers=[BASE], traffic=[BURST], gate={"itl.mean": 0.05})
def test_speed(llm_verdict):
    llm_verdict.check()
"""


def nights(suite):
    """Return the accepted nights of the one baseline, launches each."""
    (path,) = (suite.pytester.path / "baselines").glob("*/*/*.json")
    stored = json.loads(path.read_text())
    return [len(night["figures"]["itl.mean"]) for night in stored["nights"]]


def test_a_loss_seen_by_one_test_keeps_the_night_out_for_all(suite):
    """The first test finds nothing wrong, the second does: the slow night must not enter."""
    suite.write(TWICE)
    suite.run("--llmperf-accept", launches=1).assert_outcomes(passed=2)
    assert nights(suite) == [1]
    slow = suite.run(
        "--llmperf-accept", "--llmperf-server-args", "--slowdown 1.5", launches=1, replays=1
    )
    slow.assert_outcomes(passed=1, failed=1)
    assert nights(suite) == [1], "and tonight was not judged against itself"
    assert "\nnot accepted: base/burst: REGRESSED\n" in suite.text(slow)


def test_a_broken_limit_is_not_hidden_by_an_earlier_check(suite):
    """Checks of one test add up: NO_BASELINE first, SLO_VIOLATED after it; nothing accepted."""
    suite.write("""
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    def test_both(llm_verdict):
        llm_verdict.check()
        llm_verdict.check(slo={"itl.mean": "< 1 ms"}, baseline=False)
    """)
    result = suite.run("--llmperf-accept", launches=1, replays=1)
    result.assert_outcomes(failed=1)
    assert "SLO_VIOLATED (SIMULATED): base on burst" in suite.text(result)
    assert not (suite.pytester.path / "baselines").exists()


def test_a_mistake_in_a_limit_does_not_cost_the_rest(suite):
    """The unreadable limit fails the test; the baseline's part is judged and stored."""
    suite.write("""
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    def test_both(llm_verdict):
        llm_verdict.check(slo={"itl.mean": "quick", "ttft.p99": "< 9 s"})
    """)
    result = suite.run("--llmperf-accept", launches=1, replays=1)
    result.assert_outcomes(failed=1)
    assert "cannot read 'quick'" in suite.text(result)
    (verdict,) = suite.outcome()["verdicts"]
    assert {f["figure"] for f in verdict["findings"]} == {"check", "ttft.p99", "baseline"}
    assert suite.outcome()["verdicts"][0]["status"] == "INVALID"


def test_another_traffic_does_not_take_the_place_of_accepted_nights(suite):
    """A rehearsal with fewer prompts is refused: the nights stay, the session says so."""
    suite.write()
    suite.run("--llmperf-accept", launches=1, replays=1).assert_outcomes(passed=1)
    cut = suite.run("--llmperf-accept", "--llmperf-prompts", "8", launches=1, replays=1)
    assert cut.ret == 1
    assert "not accepted: base/burst" in suite.text(cut)
    assert nights(suite) == [1]


def test_a_second_session_of_the_day_adds_its_launches_to_the_night(suite):
    """Two on one date and host are one night."""
    suite.write()
    for _ in range(2):
        result = suite.run(
            "--llmperf-accept", "--llmperf-inconclusive", "pass", launches=1, replays=1
        )
        result.assert_outcomes(passed=1)
        assert "accepted as a night of the baseline: base/burst" in suite.text(result)
    assert nights(suite) == [2]


def test_a_first_night_that_is_accepted_is_a_success(suite):
    """With -m gpu and no limits: nothing was compared, and a baseline was made."""
    suite.write("""
    @pytest.mark.gpu
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    def test_serving(llm_verdict):
        llm_verdict.check()
    """)
    result = suite.run("-m", "gpu", "--llmperf-accept", "--llmperf-strict", launches=1, replays=1)
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    assert suite.collect("-m", "gpu", "--collect-only").ret == 0


def test_an_undecided_comparison_fails(suite):
    """One pair, noise assumed, against a limit at the ratio itself: nobody may take it for yes."""
    suite.write("""
    OTHER = sim("other", "Qwen/Qwen3-14B", *SLOW)

    @pytest.mark.llmperf(servers=[OTHER], against=BASE, traffic=[BURST])
    def test_same(llm_comparison):
        llm_comparison.expect("output_tps", at_least=1.0)
    """)
    result = suite.run(launches=1, replays=1)
    result.assert_outcomes(failed=1)
    assert "INCONCLUSIVE (SIMULATED): other on burst against base" in suite.text(result)
    suite.run("--llmperf-inconclusive", "skip", launches=1, replays=1).assert_outcomes(skipped=1)


def test_one_bad_traffic_of_several_costs_only_its_own_test(suite):
    """The other traffic of the same server is measured and judged."""
    suite.write("""
    GONE = sharegpt("gone", path="nowhere.json", num_prompts=4)

    @pytest.mark.llmperf(servers=[BASE], traffic=[GONE, BURST])
    def test_serving(llm_verdict):
        llm_verdict.check(slo={"ttft.p99": "< 9 s"}, baseline=False)
    """)
    result = suite.run(launches=1, replays=1)
    result.assert_outcomes(passed=1, errors=1)
    assert "nowhere.json" in suite.text(result)


def test_a_metric_with_a_bug_does_not_cost_the_records(suite):
    """The measurement is INVALID, told once, and the requests are in the artifacts."""
    suite.pytester.mkdir("more").joinpath("broken.py").write_text(
        "from pytest_llmperf.model.metric import Better, Scalar\n"
        "METRIC = Scalar('broken', 'Broken', '', Better.LOWER, lambda replay: 1 / 0)\n"
    )
    suite.pytester.makeconftest(
        "import pytest_llmperf.metrics as m\nfrom pathlib import Path\n"
        "m.__path__.append(str(Path(__file__).parent / 'more'))\n"
    )
    suite.write()
    result = suite.run(launches=1, replays=1)
    result.assert_outcomes(errors=1)
    assert "ZeroDivisionError" in suite.text(result)
    assert len(list(suite.runs[-1].glob("campaigns/*/*/launch-1/burst-1.parquet"))) == 1


def test_a_report_that_cannot_be_written_hides_nothing(suite):
    """The verdict is shown, the trouble too, and the session is not green."""
    suite.write()
    (suite.pytester.path / ".llmperf" / "report" / "index.html").mkdir(parents=True)
    result = suite.run(launches=1, replays=1)
    text = suite.text(result)
    assert "NO_BASELINE (SIMULATED): base on burst" in text
    assert "the report was not written" in text
    assert result.ret == 1


def test_environment_values_are_not_shown(suite):
    """Tokens live there, and CI logs are read by many."""
    suite.write(
        """
    OTHER = sim("base", "Qwen/Qwen3-14B", env={"HF_TOKEN": "hf_supersecret"})

    @pytest.mark.llmperf(servers=[BASE, OTHER], traffic=[BURST])
    def test_serving(llm_verdict): ...
    """,
        HEAD,
    )
    result = suite.collect()
    assert "two servers are named 'base'" in suite.text(result)
    assert "hf_supersecret" not in suite.text(result)


def test_a_cell_that_is_left_out_does_not_fail_a_test_that_may(suite):
    """An expected failure leaves the session green; what was not accepted is told all the same."""
    suite.write("""
    @pytest.mark.xfail
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    def test_both(llm_verdict):
        llm_verdict.check(slo={"itl.mean": "< 1 ms"})
    """)
    result = suite.run("--llmperf-accept", launches=1, replays=1)
    assert result.ret == 0
    assert "\nnot accepted: base/burst: SLO_VIOLATED\n" in suite.text(result)
    assert not list((suite.pytester.path / "baselines").rglob("*.json"))
