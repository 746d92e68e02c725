"""What a plan promises is what the judgement then reports."""

from __future__ import annotations

import math

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate import Noise, Rule, judge_values
from pytest_llmperf.gate.foresight import foresee

ONE_NIGHT = [[[100.0], [101.0], [102.0]]]
SIX_NIGHTS = [
    [[100.0, 100.4], [101.0, 100.6], [100.2, 100.9]],
    [[101.0, 101.2], [100.1, 100.4], [100.8, 101.3]],
    [[99.2, 99.7], [100.0, 99.8], [99.5, 99.4]],
    [[100.3, 100.1], [100.9, 101.0], [100.2, 100.7]],
    [[99.9, 100.3], [100.6, 100.1], [99.8, 100.0]],
    [[100.7, 100.5], [101.4, 101.1], [100.3, 100.9]],
]


def differing_alike(nights, launches, figure_mean=100.0):
    """Return launches whose logarithms have the variance that launches have in the nights.

    ± s·√((n − 1)/n) around the mean, for an even n, has the sample variance s².
    """
    squares, df = 0.0, 0
    for night in nights:
        logs = [sum(map(math.log, replays)) / len(replays) for replays in night]
        center = sum(logs) / len(logs)
        squares += sum((y - center) ** 2 for y in logs)
        df += len(logs) - 1
    step = math.sqrt(squares / df * (launches - 1) / launches)
    return [[figure_mean * math.exp(step * (-1) ** n)] for n in range(launches)]


@pytest.mark.parametrize("higher_is_better", [True, False])
@pytest.mark.parametrize("nights", [ONE_NIGHT, SIX_NIGHTS], ids=["one night", "six nights"])
@pytest.mark.parametrize("noise", [None, Noise(0.012, 40.0)], ids=["own", "machine's"])
@pytest.mark.parametrize("launches", [2, 4])
def test_it_is_what_the_judgement_reports(launches, noise, nights, higher_is_better):
    """The same change, noise and nights as judge_values, for launches that differ as before."""
    given = {
        "figure": "output_tps",
        "higher_is_better": higher_is_better,
        "rule": Rule(tolerance=0.04),
        "noise": noise,
        "alpha": 0.004,
    }
    seen = foresee(launches, nights, **given)
    finding = judge_values(differing_alike(nights, launches), nights, **given)
    assert seen.smallest_detectable_change == pytest.approx(
        finding.smallest_detectable_change, rel=1e-9
    )
    assert (seen.noise, seen.nights) == (finding.noise, finding.nights)


@pytest.mark.parametrize("value", [90.0, 100.0, 107.0])
def test_one_launch_is_foreseen_exactly_whatever_it_brings(value):
    """A single launch shows no difference between launches, so nothing is left to chance."""
    seen = foresee(1, SIX_NIGHTS)
    finding = judge_values([[value]], SIX_NIGHTS)
    assert seen.smallest_detectable_change == finding.smallest_detectable_change
    assert seen.noise == finding.noise == "assumed"


def test_by_hand():
    """Five nights of one launch, sd of log known and certain: (z.99 + z.95) · s · √(1 + 1/5)."""
    nights = [[[100.0]]] * 5
    seen = foresee(
        3, nights, higher_is_better=False, noise=Noise(0.01, math.inf), rule=Rule(min_launches=1)
    )
    # Half a night's variance is its launch's where nobody knows: 0.01² / 2. Tonight has three.
    tonight = 0.01**2 + 0.01**2 / 2 * (1 / 3 - 1)
    error = math.sqrt(tonight + 0.01**2 / 5)
    loss = (2.326348 + 1.644854) * error
    assert seen.smallest_detectable_change == pytest.approx(math.expm1(loss), rel=1e-6)
    assert seen.noise == "pooled"


def test_only_nights_that_are_compared_with_count():
    """Older ones than the last ten still mark what was accepted, as for the judgement."""
    nights = [[[50.0]], *([[[100.0]]] * 10)]
    seen = foresee(1, nights)
    assert seen.nights == 10
    # One launch: a loss must lie outside everything accepted, 50 at the worst: y = log 2 and more.
    assert seen.smallest_detectable_change > 0.5
    assert seen.smallest_detectable_change == pytest.approx(
        judge_values([[100.0]], nights).smallest_detectable_change
    )


@pytest.mark.parametrize(("launches", "nights"), [(0, ONE_NIGHT), (3, [])])
def test_nothing_is_foreseen_from_nothing(launches, nights):
    """Without a launch or a night there is no judgement to foresee."""
    with pytest.raises(SpecError, match="output_tps: nothing can be foreseen"):
        foresee(launches, nights)


def test_a_value_without_logarithm_is_named():
    """As in the judgement itself."""
    with pytest.raises(SpecError, match=r"baseline night 1, launch 1, replay 1: 0\.0"):
        foresee(3, [[[0.0]]])
