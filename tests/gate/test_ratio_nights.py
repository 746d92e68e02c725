"""Ratios tonight beside those of accepted nights, in words. A night of ratios is as any other."""

import pytest

from pytest_llmperf.gate import Status, judge_exact, judge_values
from pytest_llmperf.gate.ratio_nights import TIMES, as_ratio


def judged(tonight, accepted, **options):
    """Judge pairs' ratios; ``accepted``: the mean of each night, of three pairs."""
    nights = [[[ratio * step] for step in (0.999, 1.0, 1.001)] for ratio in accepted]
    pairs = [[ratio] for ratio in tonight]
    return as_ratio(judge_values(pairs, nights, figure="total_tps", **options), replays=3)


SIX = (1.270, 1.272, 1.268, 1.271, 1.269, 1.270)


def test_an_unchanged_ratio_passes():
    """Figure, tonight and accepted are ratios, and say so; evidence is pairs × replays."""
    finding = judged((1.27, 1.268, 1.272), SIX)
    assert finding.status is Status.PASSED
    assert (finding.kind, finding.unit) == ("ratio", TIMES)
    assert finding.value == pytest.approx(1.27, abs=1e-4)
    assert finding.reference == pytest.approx(1.27, abs=1e-4)
    assert (finding.launches, finding.replays, finding.nights) == (3, 3, 6)
    assert finding.reason.startswith("1.27 × the reference's, accepted 1.27; ")


def test_a_lost_ratio_regresses():
    """1.18 where 1.27 is accepted: 1 − 1.18/1.27 = 7.1 % of the gain's factor is lost."""
    finding = judged((1.181, 1.18, 1.179), SIX)
    assert finding.status is Status.REGRESSED
    assert finding.change == pytest.approx(1.18 / 1.27 - 1, abs=1e-4)
    assert finding.reason.startswith(
        "1.18 × the reference's, accepted 1.27; 7.1 % lower than 6 accepted nights: a loss of"
    )


def test_the_direction_is_the_figures():
    """A ratio of latencies that rises is a loss."""
    finding = judged((1.40, 1.401, 1.399), SIX, higher_is_better=False)
    assert finding.status is Status.REGRESSED


def test_an_open_ratio_asks_for_pairs():
    """One accepted night, 4 % lost: the cure is pairs or nights, and not a reference."""
    finding = judged((1.22, 1.219, 1.221), (1.27,))
    assert finding.status is Status.INCONCLUSIVE
    assert finding.noise == "assumed"
    assert finding.reason.startswith("1.22 × the reference's, accepted 1.27; a change of −")
    assert "is plausible on 1 accepted night, noise assumed; losses from" in finding.reason
    assert finding.reason.endswith("more accepted nights would decide")
    assert "reference would" not in finding.reason


def test_an_exact_ratio():
    """KV tokens 1.180 times the reference's, 1.172 now: 0.7 % lost, 0.5 % allowed."""
    finding = as_ratio(
        judge_exact([1.172], [[1.18]], figure="kv_tokens", higher_is_better=True), replays=3
    )
    assert finding.status is Status.REGRESSED
    assert finding.reason == (
        "1.172 × the reference's, accepted 1.18; 0.7 % lower than the last accepted night (1.18), "
        "more than the 0.5 % allowed"
    )
