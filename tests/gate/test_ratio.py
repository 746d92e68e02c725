"""Ratios by launch pairs. Log-ratios 0.2 ∓ 0.02: sd 0.02, se 0.011547, t.95 at 2 df 2.91999.

The one-sided bounds are 0.2 ∓ 0.033718 = 0.166282 and 0.233718: 1.18090 and 1.26329 times.
"""

import math

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate import Status, judge_ratio
from pytest_llmperf.gate.ratio import record_ratio


def pairs(*log_ratios, base=500.0):
    return [([base], [base * math.exp(y)]) for y in log_ratios]


THREE = pairs(0.18, 0.2, 0.22)


def judge(given=THREE, *, figure="total_tps", higher_is_better=True, **limits):
    return judge_ratio(given, figure=figure, higher_is_better=higher_is_better, **limits)


def test_bound_above_what_was_asked_passes():
    """At least 1.18 times is sure: the lower bound is 1.1809."""
    finding = judge(at_least=1.18)
    assert finding.status is Status.PASSED
    assert finding.kind == "ratio"
    assert finding.change == pytest.approx(0.221403, abs=1e-6)  # e^0.2 − 1
    assert finding.interval == pytest.approx((0.180905, 0.263288), abs=1e-5)
    assert (finding.launches, finding.noise, finding.open) == (3, "measured", False)
    assert finding.reason == (
        "1.22 times the reference, a gain (90 % interval 1.18 to 1.26, 3 pairs): at least 1.18 "
        "times as asked"
    )


def test_the_point_alone_does_not_pass():
    """1.22 times was measured, but 1.2 is within the bounds: more pairs would tell."""
    finding = judge(at_least=1.2)
    assert finding.status is Status.INCONCLUSIVE
    assert finding.open


def test_opposite_bound_below_what_was_asked_is_regressed():
    """1.27 times is out of reach: the upper bound is 1.2633."""
    finding = judge(at_least=1.27)
    assert finding.status is Status.REGRESSED
    assert finding.reason.endswith("not at least 1.27 times as asked")


def test_at_most_mirrors_at_least():
    """A cost of at most 1.27 times is kept, of 1.18 broken, of 1.2 open."""
    assert judge(at_most=1.27).status is Status.PASSED
    assert judge(at_most=1.18).status is Status.REGRESSED
    assert judge(at_most=1.2).status is Status.INCONCLUSIVE


def test_reversed_pairs_mirror():
    """Reference and candidate in each other's place: at most 1/1.18 passes, 1/1.27 is broken."""
    turned = [(c, r) for r, c in THREE]
    assert judge(turned, at_most=1 / 1.18).status is Status.PASSED
    assert judge(turned, at_most=1 / 1.27).status is Status.REGRESSED


def test_both_limits_must_hold():
    """The worse of two limits is the verdict."""
    assert judge(at_least=1.18, at_most=1.27).status is Status.PASSED
    assert judge(at_least=1.1, at_most=1.15).status is Status.REGRESSED
    assert judge(at_least=1.18, at_most=1.23).status is Status.INCONCLUSIVE


def test_what_both_launches_share_cancels():
    """Nights that differ by 30 % change nothing: each pair is judged by its own ratio."""
    drifting = [
        ([level], [level * math.exp(y)])
        for level, y in zip((400.0, 520.0, 610.0), (0.18, 0.2, 0.22), strict=True)
    ]
    assert judge(drifting, at_least=1.18).interval == pytest.approx(judge(at_least=1.18).interval)


def test_a_launch_is_the_mean_of_its_replays():
    """Replays of one launch are averaged in log: √(1000·1210) = 1100."""
    finding = judge([([1000.0], [1000.0, 1210.0])] * 2, at_least=1.0)
    assert finding.change == pytest.approx(0.1)
    assert finding.replays == 2


def test_pairs_needed():
    """The limit of 1.2, ln 0.182322, is 0.017678 away; with sd 0.02 it takes t.95·0.02/√k below that.

    k = 5: 2.13185 · 0.0089443 = 0.019068; k = 6: 2.01505 · 0.0081650 = 0.016453.
    """
    finding = judge(at_least=1.2)
    assert finding.launches_needed == 6
    assert finding.reason.endswith(
        "whether at least 1.2 times, as asked, is open; 6 pairs would decide"
    )


def test_too_close_for_any_number_of_pairs():
    """A limit that is the ratio itself stays open however many pairs there are."""
    finding = judge(at_least=math.exp(0.2))
    assert finding.launches_needed is None
    assert "too close to decide by more pairs" in finding.reason


def test_one_pair_is_judged_with_assumed_noise():
    """1 % a night, √2 for a difference, t.95 at 6 df 1.94318: 0.2 − 0.027481 = e^0.172519."""
    finding = judge(pairs(0.2), at_least=1.188)
    assert finding.status is Status.PASSED
    assert finding.noise == "assumed"
    assert "1 pair, noise assumed" in finding.reason
    assert judge(pairs(0.2), at_least=1.189).status is Status.INCONCLUSIVE


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("candidate", "limits", "status"),
    [
        (650_560.0, {"at_most": 1.02}, Status.PASSED),
        (650_560.0, {"at_least": 1.0}, Status.PASSED),
        (650_560.0, {"at_least": 1.001}, Status.REGRESSED),
        (3 * 650_560.0, {"at_least": 3.0, "at_most": 3.0}, Status.PASSED),
    ],
)
def test_an_exact_figure_has_no_noise(count, candidate, limits, status):
    """One pair decides as three do, and a ratio that is the limit itself reaches it."""
    finding = judge([([650_560.0], [candidate])] * count, figure="kv_tokens", exact=True, **limits)
    assert (finding.status, finding.noise) == (status, "exact")
    assert finding.interval == pytest.approx((finding.change, finding.change))


def test_what_was_asked_is_marked():
    """An expected ratio that stays open is no yes; a recorded one was asked nothing."""
    assert judge(at_least=1.2).expected
    assert not record_ratio(THREE, figure="total_tps", higher_is_better=True).expected


def test_direction_says_gain_or_loss():
    """1.22 times the latency is a loss, and still judged by the limit asked."""
    finding = judge(figure="itl.mean", higher_is_better=False, at_most=1.3)
    assert finding.status is Status.PASSED
    assert "a loss" in finding.reason


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        ({}, "give at_least, at_most or both"),
        ({"at_least": 0.0}, r"a ratio of 0\.0 cannot be"),
        ({"at_most": math.nan}, "a ratio of nan cannot be"),
        ({"at_least": 1.2, "at_most": 1.1}, r"at least 1\.2 and at most 1\.1"),
    ],
)
def test_impossible_limits_are_refused(limits, complaint):
    """A limit that cannot be judged by is a mistake in the suite."""
    with pytest.raises(SpecError, match=complaint):
        judge(**limits)


def test_impossible_values_are_refused_by_name():
    """The side and the pair are named."""
    with pytest.raises(SpecError, match=r"total_tps, candidate, launch 2, replay 1: 0\.0"):
        judge([([1.0], [1.0]), ([1.0], [0.0])], at_least=1.0)
    with pytest.raises(SpecError, match="no launch pairs"):
        judge([], at_least=1.0)


class TestRecorded:
    """A ratio that nothing was asked of is shown and judges nothing."""

    def test_is_what_a_judged_one_measures(self):
        """Ratio, interval and evidence are the same; the status says nothing."""
        recorded = record_ratio(THREE, figure="itl.mean", higher_is_better=False)
        limited = judge(figure="itl.mean", higher_is_better=False, at_most=1.0)
        assert limited.status is Status.REGRESSED
        assert recorded.status is Status.PASSED
        for name in ("kind", "value", "reference", "change", "interval", "noise", "launches"):
            assert getattr(recorded, name) == getattr(limited, name), name
        assert recorded.reason == (
            "1.22 times the reference, a loss (90 % interval 1.18 to 1.26, 3 pairs): recorded, "
            "nothing was asked of it"
        )

    def test_of_an_exact_figure_has_no_noise(self):
        """Weights of 9.62 GiB beside 27.52 GiB: 0.3496, in one pair."""
        finding = record_ratio(
            [([27.52], [9.62])], figure="weights_gib", higher_is_better=False, exact=True
        )
        assert finding.noise == "exact"
        assert finding.interval == pytest.approx((finding.change, finding.change))
        assert finding.reason.startswith("0.3496 times the reference, a gain: recorded")
