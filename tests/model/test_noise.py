"""Noise from nights."""

import math

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.noise import estimate_noise, launch_logs, night_log, pool
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
