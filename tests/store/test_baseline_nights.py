"""Two sessions of one night become one."""

from __future__ import annotations

import pytest

from pytest_llmperf.model.baseline import Night
from pytest_llmperf.store._baseline_nights import with_night

NOISE = {"answers": ["ids:1"], "answers_of_random_weights": True}
REAL = {"answers": ["ids:2"]}


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (NOISE, REAL, REAL),
        (REAL, NOISE, NOISE),
        (NOISE, {}, NOISE),
        (REAL, {}, REAL),
        ({}, NOISE, NOISE),
    ],
    ids=["noise, real", "real, noise", "noise, none", "real, none", "none, noise"],
)
def test_answers_and_whose_they_are_come_from_one_session(first, second, kept):
    """The last one that was asked: real answers are not called noise since others were."""
    one = Night("2026-07-01", "gpu-1", {"output_tps": ((1.0,),)}, {"run": "a", **first})
    two = Night("2026-07-01", "gpu-1", {"output_tps": ((2.0,),)}, {"run": "b", **second})
    (night,) = with_night([one], two)
    assert night.provenance == {"run": "b", "runs": ["a", "b"], **kept}
    assert night.figures == {"output_tps": ((1.0,), (2.0,))}
