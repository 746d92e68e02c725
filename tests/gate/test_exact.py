"""Figures without noise: one launch decides at 0.5 %."""

import math

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate import Status, judge_exact


def tokens(value, *before):
    return judge_exact([value], [[b] for b in before], figure="kv_tokens", higher_is_better=True)


def weights(value, *before):
    return judge_exact([value], [[b] for b in before], figure="weights_gib", higher_is_better=False)


def test_fewer_tokens_are_regressed():
    """994 of 1,000 tokens are 0.6 % fewer, and one launch is enough to know."""
    finding = tokens(994, 1000)
    assert finding.status is Status.REGRESSED
    assert finding.change == pytest.approx(-0.006)
    assert finding.reason == (
        "0.6 % lower than the last accepted night (1,000), more than the 0.5 % allowed"
    )
    assert (finding.noise, finding.launches, finding.nights) == ("exact", 1, 1)


def test_more_weights_are_regressed():
    """27.7 GiB beside 27.5 are 0.73 % more memory."""
    assert weights(27.7, 27.5).status is Status.REGRESSED


@pytest.mark.parametrize("value", [995, 1000, 1005])
def test_half_a_percent_is_allowed_both_ways(value):
    """Exactly 0.5 % either way passes, whatever floating point makes of 995/1000."""
    assert tokens(value, 1000).status is Status.PASSED
    assert weights(value, 1000).status is Status.PASSED


def test_gains_are_improved():
    """More tokens, or less memory for the weights, beyond 0.5 %."""
    assert tokens(1006, 1000).status is Status.IMPROVED
    assert weights(994, 1000).status is Status.IMPROVED


def test_only_the_last_night_counts():
    """A step that was accepted is the new state."""
    assert tokens(900, 1000, 1000, 900).status is Status.PASSED


def test_the_same_value_says_so():
    """No ratio is shown where nothing moved."""
    assert tokens(1000, 1000).reason == "the same as the last night (1,000)"


def test_launches_that_disagree_are_pointed_out():
    """The mean decides, but a figure without noise that differs is worth a word."""
    finding = judge_exact([1000, 980], [[1000]], figure="kv_tokens", higher_is_better=True)
    assert finding.status is Status.REGRESSED
    assert finding.value == 990
    assert "its 2 launches differ by 2.0 %" in finding.reason


def test_tolerance_can_be_set():
    """3 % fewer pass at a tolerance of 5 %."""
    finding = judge_exact(
        [970], [[1000]], figure="kv_tokens", higher_is_better=True, tolerance=0.05
    )
    assert finding.status is Status.PASSED
    assert finding.tolerance == 0.05


def test_no_baseline():
    """Without a night there is nothing to compare with."""
    finding = tokens(1000)
    assert finding.status is Status.NO_BASELINE
    assert finding.value == 1000


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_impossible_values_are_refused_by_name(value):
    """A weight of nothing is a log that was not read."""
    with pytest.raises(SpecError, match=r"kv_tokens, candidate, launch 1: .* cannot be judged"):
        tokens(value, 1000)


def test_no_launches_are_refused():
    """A judgement needs something to judge."""
    with pytest.raises(SpecError, match="kv_tokens, candidate: no launches"):
        judge_exact([], [[1000]], figure="kv_tokens", higher_is_better=True)
