"""The rule's defaults, its limits, and a session's share of false alarms."""

import math

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate import Rule, session_alpha


@pytest.mark.parametrize(
    ("figures", "alpha"), [(0, 0.01), (1, 0.01), (5, 0.01), (10, 0.005), (60, 0.05 / 60)]
)
def test_session_alpha(figures, alpha):
    """1 % a figure, and 5 % a night over all of them together."""
    assert session_alpha(figures) == pytest.approx(alpha)


def test_defaults_are_the_gates():
    """5 % tolerance, 2 % smallest effect, alpha 1 %, 95 % bounds; 3 launches, 5 to 10 nights."""
    rule = Rule()
    assert (rule.tolerance, rule.smallest_effect, rule.assumed_sd) == (0.05, 0.02, None)
    assert (rule.alpha, rule.confidence) == (0.01, 0.95)
    assert (rule.min_launches, rule.min_nights, rule.max_nights) == (3, 5, 10)


def test_effect_is_no_larger_than_the_tolerance():
    """Between the two nothing could pass or fail."""
    assert Rule().effect == 0.02
    assert Rule(tolerance=0.01).effect == 0.01


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"tolerance": 0.0}, "tolerance is 0.0, not between 0 and 1"),
        ({"tolerance": 5}, "tolerance is 5, not between 0 and 1"),
        ({"smallest_effect": -0.1}, "smallest_effect is -0.1"),
        ({"assumed_sd": 0.0}, "assumed_sd is 0.0"),
        ({"assumed_sd": math.nan}, "assumed_sd is nan"),
        ({"confidence": 0.5}, "confidence is 0.5"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"min_launches": 0}, "min_launches is 0"),
        ({"min_nights": 1}, "min_nights is 1"),
        ({"min_nights": 11}, "not between 2 and 10"),
    ],
)
def test_impossible_rules_are_refused(values, complaint):
    """The message says which value cannot be, and what could."""
    with pytest.raises(SpecError, match=complaint):
        Rule(**values)
