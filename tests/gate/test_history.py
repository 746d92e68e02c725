"""Which noise a night is judged with."""

import math

import pytest

from pytest_llmperf.gate.history import Evidence, NightNoise
from pytest_llmperf.gate.rule import Rule
from pytest_llmperf.model.verdict import Noise

FLAT = (0.0, 0.0, 0.0)


def evidence(history, *, nights=10, candidate=FLAT, pooled=False):
    return Evidence(candidate, [FLAT] * nights, history, pooled, assumed_sd=0.01, rule=Rule())


def chosen(own_sd, machine, *, nights=10, spread=0.0):
    """Return what is chosen for nights of this sd, whose launches lie ±spread apart."""
    step = own_sd * math.sqrt((nights - 1) / nights)  # nights at ±step have an sd of own_sd
    of = [[sign * step + y for y in (-spread, 0.0, spread)] for sign in [1, -1] * (nights // 2)]
    return Evidence.of(of[0], of or [FLAT], machine, assumed_sd=0.01, rule=Rule())


@pytest.mark.parametrize(
    ("own_sd", "pooled"),
    [
        (0.0, True),  # nothing seen at all proves nothing
        (0.0034, False),  # F = 0.1156; 0.1 % quantile of F(9, 90): 0.1246
        (0.0037, True),
        (0.0100, True),
        (0.0130, True),  # F = 1.69; 90 % quantile of F(9, 90): 1.7039
        (0.0132, False),
        (0.1000, False),
    ],
)
def test_the_machine_is_believed_unless_the_nights_contradict_it(own_sd, pooled):
    """Of ten nights against a pool of 1 % with 90 df, at 10 % above and 0.1 % below."""
    evidence = chosen(own_sd, Noise(0.01, 90))
    assert evidence.pooled is pooled
    expected = 0.01 if pooled else own_sd
    assert (evidence.history.sd, evidence.history.df) == (
        pytest.approx(expected),
        90 if pooled else 9,
    )


def test_what_is_known_better_is_taken():
    """Files that differ too much leave the pool fewer degrees of freedom than ten nights."""
    assert not chosen(0.01, Noise(0.01, 8.9)).pooled
    assert chosen(0.01, Noise(0.01, 9.1)).pooled


def test_launches_contradict_while_nights_are_few():
    """Launches of sd 0.03 in two nights make nights of 0.03·√(4/3) plausible, not of 0.003."""
    assert not chosen(0.0, Noise(0.003, 90), nights=2, spread=0.03).pooled
    assert chosen(0.0, Noise(0.035, 90), nights=2, spread=0.03).pooled
    assert chosen(0.0, Noise(0.003, 90), nights=10, spread=0.03).pooled


def test_a_raised_assumption_is_as_sure_as_its_launches():
    """Two launches tonight and two then: two degrees of freedom, sd 0.02·√(3/2) from ±0.02/√2."""
    y = 0.02 / math.sqrt(2)
    noise = Evidence.of((-y, y), [(-y, y)], None, assumed_sd=0.01, rule=Rule()).noise(2)
    assert noise.sd == pytest.approx(0.02 * math.sqrt(1.5))
    assert (noise.df, noise.source) == (2, "assumed")


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
