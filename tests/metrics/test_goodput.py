"""goodput: requests a second that met every limit, as vLLM's."""

from __future__ import annotations

import pytest

from pytest_llmperf.errors import UnknownNameError
from pytest_llmperf.metrics import goodput


@pytest.fixture
def four(record, replay):
    """TTFT 100, 100, 300 ms and a failed one; TPOT 50, 100, 20 ms; in 2 s."""
    return replay(
        record(0, [100, 150]),
        record(0, [100, 200]),
        record(1600, [1900, 1920, 2000], [1, 4, 0], output_tokens=6),
        record(0, [1, 2], error="cut off"),
    )


@pytest.mark.parametrize(
    ("limits", "good"),
    [
        ({}, 3),
        ({"ttft": 100}, 2),  # a value at its limit meets it
        ({"ttft": 99.999}, 0),
        ({"tpot": 50}, 2),  # 50 and (2000 - 1900) / 5 = 20
        ({"e2el": 200}, 2),
        ({"ttft": 100, "tpot": 50}, 1),
        ({"ttft": 100, "tpot": 50, "e2el": 149}, 0),
    ],
)
def test_every_limit_must_be_met(four, limits, good):
    """Over the 2 s from the first send to the last chunk; the failed one never meets any."""
    assert goodput(four, limits) == good / 2


def test_a_single_token_meets_any_tpot(record, replay):
    """Its TPOT is taken as 0, as by vLLM."""
    assert goodput(replay(record(0, [1000])), {"tpot": 1}) == 1.0


def test_all_failed_is_no_goodput(record, replay):
    """0.0: a count over a time, not a latency that is missing."""
    assert goodput(replay(record(0, [10], error="x")), {"ttft": 1e9}) == 0.0
    assert goodput(replay(), {}) == 0.0


def test_a_limit_on_anything_else_is_unknown(four):
    """There are three, vLLM's."""
    with pytest.raises(UnknownNameError, match=r"unknown goodput limit 'itl'.*e2el, tpot, ttft"):
        goodput(four, {"itl": 5})
