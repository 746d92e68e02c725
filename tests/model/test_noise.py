"""Noise from nights."""

import math

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.noise import (
    estimate_noise,
    launch_logs,
    night_log,
    night_mean,
    pool,
    pool_unlike,
)
from pytest_llmperf.model.verdict import Noise


def test_sd_of_night_means():
    """Night means e^−0.01, e^0, e^0.01: sd 0.01 with two degrees of freedom."""
    nights = [[[math.exp(y)]] for y in (-0.01, 0.0, 0.01)]
    noise = estimate_noise(nights)
    assert noise.sd == pytest.approx(0.01)
    assert noise.df == 2


def test_launches_of_a_night_are_averaged_first():
    """Two launches at ±0.02 make a night of 0, whatever they differ by."""
    nights = [[[math.exp(0.02)], [math.exp(-0.02)]], [[1.0]], [[1.0, 1.0]]]
    assert estimate_noise(nights).sd == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("nights", [[], [[[1.0], [2.0]]]])
def test_one_night_has_no_noise(nights):
    """Below two nights there is nothing to differ."""
    assert estimate_noise(nights) is None


def test_pool_weighs_by_degrees_of_freedom():
    """√((9·0.01² + 1·0.02²) / 10) = √0.00013."""
    pooled = pool([Noise(0.01, 9), Noise(0.02, 1)])
    assert pooled.sd == pytest.approx(math.sqrt(0.00013))
    assert pooled.df == 10


def test_pool_of_none():
    """Nothing known gives nothing."""
    assert pool([]) is None
    assert pool([Noise(0.01, 0)]) is None


def test_pool_with_a_noise_that_is_known_exactly():
    """Infinite degrees of freedom outweigh every estimate."""
    assert pool([Noise(0.05, 9), Noise(0.01, math.inf)]) == Noise(0.01, math.inf)


def test_alike_noises_are_pooled_with_all_their_freedom():
    """Two that differ by less than chance explains: 0.0002 and 0.0008 with one df each."""
    pooled = pool_unlike([Noise(math.sqrt(0.0002), 1), Noise(math.sqrt(0.0008), 1)])
    assert pooled.sd == pytest.approx(math.sqrt(0.0005))
    assert pooled.df == pytest.approx(2)


def test_unlike_noises_foretell_little_of_any_one():
    """Nine of 1 and one of 10 with 9 df: v = (9·1 + 100)/10 = 10.9, D = 90.

    seen = 9·(9·9.9² + 89.1²) = 79388.1; chance = 0.9·2·9/11·(9 + 10⁴) = 14740.527;
    weight = 90 − 810/90 = 81; t = 798.1182; 1/df = 1/90 + 798.1182/(2·10.9²).
    """
    pooled = pool_unlike([Noise(10.0, 9), *[Noise(1.0, 9)] * 9])
    assert pooled.sd == pytest.approx(math.sqrt(10.9))
    assert pooled.df == pytest.approx(1 / (1 / 90 + 798.1182 / (2 * 10.9**2)), rel=1e-6)
    assert pooled.df < 1


@pytest.mark.parametrize(
    ("noises", "expected"),
    [
        ([], None),
        ([Noise(0.01, 9)], Noise(0.01, 9)),
        ([Noise(0.0, 4), Noise(0.0, 4)], Noise(0.0, 8)),
        ([Noise(0.05, 9), Noise(0.01, math.inf)], Noise(0.01, math.inf)),
    ],
)
def test_nothing_can_differ(noises, expected):
    """None, one, noiseless ones, and one that is known exactly."""
    assert pool_unlike(noises) == expected


def test_night_mean_is_of_logarithms_where_there_are_any():
    """Launches at log 200 and 50: 100. With a zero: the mean of 250 and 0."""
    assert night_mean([[100.0, 400.0], [50.0]]) == pytest.approx(100)
    assert night_mean([[100.0, 400.0], [0.0]]) == 125
    assert night_mean([[262144.0], [262144.0]]) == 262144


def test_means_are_of_logarithms():
    """A launch of 100 and 400 lies at log 200; a night is the mean of its launches."""
    assert launch_logs([[100.0, 400.0], [50.0]], "output_tps", "night 1") == pytest.approx(
        [math.log(200), math.log(50)]
    )
    assert night_log([[100.0, 400.0], [50.0]], "f", "night 1") == pytest.approx(math.log(100))


def test_impossible_value_names_its_night():
    """Whoever reads the message finds the value."""
    with pytest.raises(SpecError, match=r"itl\.mean, night 2, launch 1, replay 2: 0"):
        estimate_noise([[[1.0]], [[1.0, 0]]], "itl.mean")
