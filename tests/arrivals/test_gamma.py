"""gamma: vLLM's schedule for a burstiness that must be said."""

from __future__ import annotations

import math

import pytest

from pytest_llmperf.arrivals import ARRIVALS
from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.traffic import TrafficSpec


def due(arrival="gamma", **options):
    """Return the schedule of a traffic with these options."""
    return ARRIVALS[arrival].due_ns(
        TrafficSpec.of("x", "random", {}, {"arrival": arrival, **options})
    )


@pytest.mark.parametrize(
    ("options", "burstiness", "expected"),
    [
        # get_request of vLLM 0.32.0, its clock replaced by one that stands still, after
        # np.random.seed(seed): --num-prompts --request-rate --seed --burstiness as here.
        (
            {"num_prompts": 8, "request_rate": 4, "seed": 7},
            0.5,
            [
                *(8641027, 293861891, 400795216, 1174234746),
                *(1297444728, 1365014293, 1921291680, 2000000000),
            ],
        ),
        (
            {"num_prompts": 6, "request_rate": 5, "seed": 5},
            3,
            [206455177, 335684473, 869534311, 1005565328, 1091662246, 1200000000],
        ),
        # Even: 1 / (2 a second).
        ({"num_prompts": 3, "request_rate": 2}, math.inf, [500000000, 1000000000, 1500000000]),
    ],
)
def test_the_schedule_is_vllms(options, burstiness, expected):
    """The same seed, rate and burstiness give vLLM's due times, to the nanosecond."""
    assert due(**options, arrival_options={"burstiness": burstiness}) == expected


def test_a_burstiness_of_1_is_poisson():
    """The exponential distribution is the gamma distribution of shape 1."""
    common = {"num_prompts": 50, "request_rate": 7, "seed": 3}
    assert due(**common, arrival_options={"burstiness": 1}) == due("poisson", **common)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "option 'burstiness' is needed"),
        ({"arrival_options": {"burstiness": 0}}, "burstiness is 0, not a number above 0"),
        ({"arrival_options": {"bursty": 2}}, "unknown option 'bursty'. Known: burstiness"),
        (
            {"arrival_options": {"burstiness": 0.5}, "request_rate": math.inf},
            "request_rate is inf: all would be due at once, in one burst; give a rate",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(options, complaint):
    """The burstiness is what this process is for, and it needs a rate to shape."""
    with pytest.raises(SpecError) as caught:
        due(**{"request_rate": 5, **options})
    assert str(caught.value) == f"traffic 'x', arrival 'gamma': {complaint}"
