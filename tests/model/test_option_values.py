"""Options of a dataset or an arrival process, from pairs to a typed value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.options import is_count, is_number, options_from, require


@dataclass(frozen=True)
class Options:
    """One that is needed, one that is not."""

    rate: float
    shape: float = 1.0


def test_pairs_fill_the_value():
    """What is given replaces a default."""
    assert options_from("x", (("rate", 2.0),), Options) == Options(2.0, 1.0)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ((("rate", 2), ("shap", 3)), "x: unknown option 'shap'. Known: rate, shape"),
        ((("shape", 3),), "x: option 'rate' is needed"),
    ],
)
def test_what_is_unknown_or_missing_is_said(pairs, message):
    """With its owner, and the known options."""
    with pytest.raises(SpecError) as caught:
        options_from("x", pairs, Options)
    assert str(caught.value) == message


def test_the_first_broken_rule_is_said():
    """Rules are (holds, complaint)."""
    require("x", (True, "a"))
    with pytest.raises(SpecError, match=r"^x: b$"):
        require("x", (True, "a"), (False, "b"), (False, "c"))


@pytest.mark.parametrize(
    ("value", "count", "number"),
    [
        (0, True, True),
        (-1, False, True),
        (1.0, False, True),
        (math.inf, False, True),
        (math.nan, False, False),
        (True, False, False),
        ("1", False, False),
        (None, False, False),
    ],
)
def test_counts_and_numbers(value, count, number):
    """True is no count, NaN no number, and a string neither."""
    assert (is_count(value), is_number(value)) == (count, number)
