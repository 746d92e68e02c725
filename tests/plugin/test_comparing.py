"""Comparisons with nights of their own: ratios recorded, accepted and judged (simulated engine)."""

from __future__ import annotations

import json
import re

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.plugin.checks import _require_bounds

PAIR = """
OTHER = sim("other", "Qwen/Qwen3-14B", *SLOW, "--slowdown", "{slowdown}")

@pytest.mark.llmperf(servers=[OTHER], against=BASE, traffic=[BURST], gate=["itl.mean"])
def test_other(llm_comparison):
    {body}
"""
CHECK = "llm_comparison.check()"


def write(suite, slowdown="1.2", body=CHECK):
    """Make the suite one comparison of a server that is so much slower than the other."""
    suite.write(PAIR.format(slowdown=slowdown, body=body))


def once(suite, *options):
    """Measure one pair of launches, one replay each."""
    return suite.run(*options, launches=1, replays=1)


def stored(suite):
    """Return the one baseline there is."""
    (path,) = (suite.pytester.path / "baselines").glob("*/other-vs-base/burst.json")
    return json.loads(path.read_text())


def findings(suite):
    """Return the one verdict's findings by figure."""
    (verdict,) = suite.outcome()["verdicts"]
    return {finding["figure"]: finding for finding in verdict["findings"]}


def test_a_loss_against_the_reference_is_caught(suite):
    """Accepted at 1.2 times the reference's ITL; at 2.4 times it regressed."""
    write(suite)
    first = once(suite, "--llmperf-accept")
    first.assert_outcomes(passed=1)
    assert "accepted as a night of the baseline: other-vs-base/burst" in suite.text(first)
    night = stored(suite)["nights"][0]
    ((ratio,),) = night["figures"]["itl.mean"]
    assert ratio == pytest.approx(1.2, rel=0.15)
    assert "reference_engine_version" in night["provenance"]
    assert stored(suite)["server"]["against"]["name"] == "base"

    write(suite, slowdown="2.4")
    slower = once(suite, "--llmperf-accept")
    slower.assert_outcomes(failed=1)
    text = suite.text(slower)
    assert "REGRESSED (SIMULATED): other on burst against base" in text
    assert re.search(r"2\.\d+ × the reference's, accepted 1\.\d+; \d+\.\d % higher than", text)
    assert "changed since the baseline: arguments + --slowdown 2.4, − --slowdown 1.2" in text
    assert len(stored(suite)["nights"]) == 1, "a regressed night is never accepted"


def test_what_slows_both_cancels(suite):
    """Both at four times the ITL: the ratio is as accepted; what nobody asked is recorded."""
    write(suite, slowdown="1")
    once(suite, "--llmperf-accept").assert_outcomes(passed=1)
    once(suite, "--llmperf-server-args", "--slowdown 4")
    found = findings(suite)
    assert found["itl.mean"]["unit"] == "×"
    assert abs(found["itl.mean"]["change"]) < 0.3
    assert "nothing was asked of it" in found["total_tps"]["reason"]
    assert found["total_tps"]["unit"] == "tok/s"
    (verdict,) = suite.runs[-1].glob("verdicts/*.json")
    told = json.loads(verdict.read_text())
    assert "changed since the baseline: base: arguments + --slowdown 4" in told["message"]
    assert len(told["inputs"]["ratios"]["itl.mean"]) == 1, "all that it takes to judge again"


def test_the_first_night_has_nothing_to_compare_with(suite):
    """Skipped, failed when strict; tonight's ratios are told, and nothing looks as if judged."""
    write(suite)
    once(suite).assert_outcomes(skipped=1)
    assert list(findings(suite)) == ["baseline"]
    strict = once(suite, "--llmperf-strict")
    strict.assert_outcomes(failed=1)
    text = suite.text(strict)
    assert "no night of other against base on burst is stored" in text
    assert "Tonight, × the reference's: total_tps 0." in text
    assert not (suite.pytester.path / "baselines").exists()


def test_what_was_expected_and_missed_keeps_the_night_out(suite):
    """Checks add up: a ratio that is not as expected is never accepted."""
    write(suite, body=f'{CHECK}; llm_comparison.expect("output_tps", at_least=1.5)')
    once(suite, "--llmperf-accept").assert_outcomes(failed=1)
    assert set(findings(suite)) >= {"baseline", "output_tps", "total_tps", "ttft.mean"}
    assert not (suite.pytester.path / "baselines").exists()


def test_an_expectation_alone_makes_no_baseline(suite):
    """As a limit alone makes none."""
    write(suite, body='llm_comparison.expect("output_tps", at_most=1.2)')
    once(suite, "--llmperf-accept").assert_outcomes(passed=1)
    assert not (suite.pytester.path / "baselines").exists()


def test_an_empty_gate_is_not_taken_for_no_check(suite):
    """On a second night check() was called and judged nothing: INVALID, with why."""
    write(suite)
    once(suite, "--llmperf-accept").assert_outcomes(passed=1)
    suite.write(PAIR.format(slowdown="1.2", body=CHECK).replace('gate=["itl.mean"]', "gate=[]"))
    result = once(suite)
    result.assert_outcomes(failed=1)
    assert "gate= is empty" in suite.text(result)


def test_nothing_asked_is_an_error(suite):
    """Recording alone is no judgement."""
    write(suite, body="assert llm_comparison")
    result = once(suite)
    result.assert_outcomes(passed=1, errors=1)
    assert "call llm_comparison.check() or .expect(...) in the test" in suite.text(result)


def test_a_server_with_the_name_of_a_comparison_is_told_apart(suite):
    """Its nights are not judged against ratios, nor added to them."""
    write(suite)
    once(suite, "--llmperf-accept").assert_outcomes(passed=1)
    suite.write("""
    ODD = sim("other-vs-base", "Qwen/Qwen3-14B", *SLOW)

    @pytest.mark.llmperf(servers=[ODD], traffic=[BURST], gate=["itl.mean"])
    def test_odd(llm_verdict):
        llm_verdict.check()
    """)
    result = once(suite, "--llmperf-accept")
    result.assert_outcomes(failed=1)
    assert "holds ratios of other against base, not nights of other-vs-base" in suite.text(result)
    assert len(stored(suite)["nights"]) == 1


@pytest.mark.parametrize("bound", ["1.2", True, float("nan")])
def test_a_bound_that_is_no_number_is_a_complaint(bound):
    """A text that reads like one, a bool, NaN: the figure and the bound are named."""
    with pytest.raises(SpecError, match=r"expect\('output_tps'\): at_least= is .*, not a number"):
        _require_bounds("output_tps", at_least=bound, at_most=None)
