"""Absolute limits. Launch means 190, 200, 210: mean 200, sd 10, se 5.7735, t.95 at 2 df 2.91999."""

import math

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate import Rule, Status, judge_limit

THREE = [[190.0], [195.0, 205.0], [210.0]]


def judge(limit, values=THREE, *, upper=True, text="", **options):
    return judge_limit(values, figure="ttft.p99", upper=upper, limit=limit, text=text, **options)


def test_bound_within_the_limit_keeps_it():
    """200 + 2.91999 · 5.7735 = 216.86 stays below 217."""
    finding = judge(217, text="< 217 ms")
    assert finding.status is Status.PASSED
    assert finding.reason == ("keeps the limit '< 217 ms' by its 95 % bound, 216.9 (3 launches)")
    assert (finding.kind, finding.noise, finding.launches, finding.replays) == (
        "slo",
        "measured",
        3,
        2,
    )


def test_bound_beyond_the_limit_breaks_it():
    """200 − 16.86 = 183.14 lies above 183."""
    finding = judge(183)
    assert finding.status is Status.SLO_VIOLATED
    assert finding.reason == "breaks the limit '< 183' by its 95 % bound, 183.1 (3 launches)"


@pytest.mark.parametrize(("limit", "status"), [(216, Status.PASSED), (184, Status.SLO_VIOLATED)])
def test_between_the_bounds_the_mean_decides(limit, status):
    """Within noise of the limit, and the reason says so."""
    finding = judge(limit)
    assert finding.status is status
    assert "within noise of the limit" in finding.reason


def test_lower_limits_mirror_upper_ones():
    """A throughput of 200 ∓ 16.86 keeps "> 183", breaks "> 217", and 190 is within noise."""
    assert judge(183, upper=False).status is Status.PASSED
    assert "within noise" not in judge(183, upper=False).reason
    assert judge(217, upper=False).status is Status.SLO_VIOLATED
    assert "within noise" not in judge(217, upper=False).reason
    assert judge(190, upper=False).status is Status.PASSED
    assert "within noise" in judge(190, upper=False).reason


def test_distance_from_the_limit():
    """The mean is 20 % below a limit of 250; its 90 % interval is −26.7 % to −13.3 %."""
    finding = judge(250)
    assert (finding.value, finding.reference) == (200, 250)
    assert finding.change == pytest.approx(-0.2)
    assert finding.interval == pytest.approx((-0.267435, -0.132565), abs=1e-5)


def test_zero_errors_keep_a_limit_of_zero():
    """Values may be 0, and "<= 0" is kept by 0; no ratio to 0 is made up."""
    finding = judge_limit(
        [[0.0], [0.0], [0.0]], figure="error_rate", upper=True, limit=0.0, text="<= 0"
    )
    assert finding.status is Status.PASSED
    assert finding.change is None
    assert finding.interval is None


def test_the_limit_itself():
    """200 keeps "<= 200" and breaks "< 200"; goodput of 0 breaks "> 0"."""
    values = [[200.0], [200.0]]
    assert judge(200, values, text="<= 200 ms").status is Status.PASSED
    assert judge(200, values, text="< 200 ms").status is Status.SLO_VIOLATED
    assert judge(0, [[0.0], [0.0]], upper=False, text="> 0").status is Status.SLO_VIOLATED


def test_one_launch_is_judged_with_assumed_noise():
    """TTFT p99 is assumed to vary by 2 %: 4 on 200, t.95 at 6 df 1.94318: bound 207.77."""
    assert judge(208, [[200.0]]).status is Status.PASSED
    finding = judge(207, [[200.0]])
    assert finding.status is Status.PASSED
    assert finding.noise == "assumed"
    assert finding.reason == (
        "keeps the limit '< 207' by its mean, but lies within noise of the limit: the 95 % "
        "bound is 207.8 (1 launch, noise assumed)"
    )
    wide = judge(215, [[200.0]], rule=Rule(assumed_sd=0.05))
    assert "within noise" in wide.reason


def test_launches_weigh_the_same_whatever_their_replays():
    """Ten replays of 100 and one of 200: the mean of launches is 150, not 109."""
    finding = judge(149, [[100.0] * 10, [200.0]])
    assert finding.value == 150
    assert finding.status is Status.SLO_VIOLATED


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite_are_refused_by_name(value):
    """A limit says nothing about what was not measured."""
    with pytest.raises(SpecError, match=r"ttft\.p99, launch 2: .* cannot be judged by a limit"):
        judge(100, [[1.0], [value]])


def test_nothing_to_judge_is_refused():
    """No launches, or a launch without replays."""
    with pytest.raises(SpecError, match=r"ttft\.p99: no launches to judge by the limit < 1 ms"):
        judge(1, [], text="< 1 ms")
    with pytest.raises(SpecError, match=r"ttft\.p99, launch 1: no replays"):
        judge(1, [[]])
