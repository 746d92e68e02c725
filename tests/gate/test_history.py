"""Which noise a night is judged with."""

import math

import pytest

from pytest_llmperf.gate.history import Evidence, NightNoise
from pytest_llmperf.gate.rule import Rule
from pytest_llmperf.model.verdict import Noise

FLAT = (0.0, 0.0, 0.0)


def evidence(history, *, nights=10, candidate=FLAT, pooled=False):
    return Evidence(candidate, [FLAT] * nights, history, pooled, assumed_sd=0.01, rule=Rule())


def test_history_of_five_nights_is_believed():
    """Four degrees of freedom are five nights: measured, as it is."""
    noise = evidence(Noise(0.02, 4)).noise(3)
    assert (noise.sd, noise.df, noise.source) == (0.02, 4, "measured")


def test_history_of_the_machine_is_pooled():
    """The same from this machine's other baselines goes by another name."""
    assert evidence(Noise(0.02, 30), pooled=True).noise(3).source == "pooled"


def test_short_history_is_blended():
    """√((6·0.01² + 2·0.02²) / 8) = √0.000175 with 8 degrees of freedom."""
    noise = evidence(Noise(0.02, 2), nights=3).noise(3)
    assert noise.sd == pytest.approx(math.sqrt(0.000175))
    assert (noise.df, noise.source) == (8, "assumed")


def test_no_history_is_the_assumption():
    """One night: 1 %, as sure as six degrees of freedom."""
    noise = evidence(None, nights=1).noise(3)
    assert (noise.sd, noise.df, noise.source) == (pytest.approx(0.01), 6, "assumed")


def test_launches_part_never_exceeds_the_nights():
    """Launches of sd 0.02 in nights of sd 0.005: three of them explain all, √3 · 0.005."""
    spread = Evidence(
        (-0.02, 0.0, 0.02),
        [(-0.02, 0.0, 0.02)] * 10,
        Noise(0.005, 30),
        pooled=True,
        assumed_sd=0.01,
        rule=Rule(),
    )
    noise = spread.noise(3)
    assert noise.launch_sd == pytest.approx(math.sqrt(3) * 0.005)
    assert noise.error(3, 10) == pytest.approx(0.005 * math.sqrt(1.1))


def test_unknown_split_is_half_and_half():
    """One launch a night shows no spread: 0.01² = night² + launch², each 0.00005."""
    single = Evidence((0.0,), [(0.0,)], None, pooled=False, assumed_sd=0.01, rule=Rule())
    assert single.noise(1).launch_sd == pytest.approx(math.sqrt(0.00005))


def test_error_of_more_launches():
    """0.02² + 0.01²·(1/6 − 1/3) + 0.02²/4 = 0.00048333."""
    noise = NightNoise(0.02, 30, "measured", launch_sd=0.01, per_launch=1 / 3)
    assert noise.error(6, 4) == pytest.approx(math.sqrt(0.00048333), rel=1e-5)
