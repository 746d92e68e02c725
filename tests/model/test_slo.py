"""Limits as a suite writes them."""

import pytest

from pytest_llmperf.errors import SloError
from pytest_llmperf.model.slo import Slo


@pytest.mark.parametrize(
    ("text", "unit", "upper", "limit"),
    [
        ("< 200 ms", "ms", True, 200.0),
        ("<=0.2s", "ms", True, 200.0),
        ("< 200_000 us", "ms", True, 200.0),
        ("> 1,000 tok/s", "tok/s", False, 1000.0),
        (">= 1e3", "tok/s", False, 1000.0),
        ("< 1 %", "", True, 0.01),
        ("> 9.5 GiB", "GiB", False, 9.5),
        ("< 90 s", "s", True, 90.0),
    ],
)
def test_a_limit_is_read_in_the_figures_unit(text, unit, upper, limit):
    """Comparison, number, unit; without a unit the figure's own is meant."""
    slo = Slo.parse("f", text, unit)
    assert (slo.upper, slo.limit) == (upper, pytest.approx(limit))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("200 ms", "cannot read '200 ms'"),
        ("fast", "cannot read 'fast'"),
        (200, "cannot read 200"),
        ("< -5 ms", "cannot read"),
        ("< 200 sec", "unknown unit 'sec'"),
        ("< 200 tok/s", "is in tok/s, but the figure is in ms"),
    ],
)
def test_a_limit_that_cannot_be_read_is_told(text, complaint):
    """With the figure and how to write one."""
    with pytest.raises(SloError, match=complaint) as caught:
        Slo.parse("ttft.p99", text, "ms")
    assert "'ttft.p99'" in str(caught.value)
