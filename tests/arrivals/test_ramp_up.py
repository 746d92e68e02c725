"""ramp_up: vLLM's schedule for the same seed, and its even form by hand."""

from __future__ import annotations

import math

import pytest

from pytest_llmperf.arrivals import ARRIVALS
from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.traffic import TrafficSpec


def due(num_prompts=6, seed=0, request_rate=math.inf, **options):
    """Return the schedule of a traffic whose arrival has these options."""
    common = {
        "num_prompts": num_prompts,
        "seed": seed,
        "request_rate": request_rate,
        "arrival": "ramp_up",
        "arrival_options": options,
    }
    return ARRIVALS["ramp_up"].due_ns(TrafficSpec.of("x", "random", {}, common))


def test_a_linear_ramp_is_vllms():
    """What get_request of vLLM 0.32.0 gave for --ramp-up-start-rps 1 --ramp-up-end-rps 5."""
    assert due(strategy="linear", start_rps=1, end_rps=5) == [
        *(795874508, 1493613821, 1848699646, 2080229397, 2211431419, 2419063278)
    ]


def test_an_exponential_ramp_is_vllms():
    """The same with --ramp-up-strategy exponential, 1 to 8, --burstiness 2 --seed 2."""
    assert due(strategy="exponential", start_rps=1, end_rps=8, burstiness=2, seed=2) == [
        *(592226825, 1118405911, 1174556274, 1289288948, 1349915026, 1396604159)
    ]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        # Rates 1, 2.5, 4: gaps of 1, 0.4 and 0.25 s.
        ("linear", [1_000_000_000, 1_400_000_000, 1_650_000_000]),
        # Rates 1, 2, 4: gaps of 1, 0.5 and 0.25 s.
        ("exponential", [1_000_000_000, 1_500_000_000, 1_750_000_000]),
    ],
)
def test_even_gaps_show_the_rates(strategy, expected):
    """With an infinite burstiness a gap is 1 / rate, and the rate rises from 1 to 4."""
    times = due(num_prompts=3, strategy=strategy, start_rps=1, end_rps=4, burstiness=math.inf)
    assert times == expected


def test_a_single_request_comes_at_the_starting_rate():
    """No division by the zero steps between one request and itself."""
    assert due(num_prompts=1, start_rps=4, end_rps=8, burstiness=math.inf) == [250_000_000]


GOOD = {"start_rps": 1, "end_rps": 5}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"end_rps": 5}, "option 'start_rps' is needed"),
        (GOOD | {"strategy": "steps"}, "strategy is 'steps', known: linear, exponential"),
        (GOOD | {"start_rps": 0}, "start_rps is 0, not a number above 0"),
        (GOOD | {"end_rps": math.inf}, "end_rps is inf, not a number above 0"),
        (GOOD | {"end_rps": "5"}, "end_rps is '5', not a number above 0"),
        (GOOD | {"start_rps": 6}, "start_rps is 6, above end_rps, which is 5"),
        (GOOD | {"burstiness": 0}, "burstiness is 0, not a number above 0"),
        (GOOD | {"request_rate": 3}, "request_rate is 3; leave it out"),
        (GOOD | {"rps": 3}, "unknown option 'rps'. Known: burstiness, end_rps, start_rps"),
    ],
)
def test_options_that_cannot_be_are_refused(options, complaint):
    """With the traffic, the arrival process, the value and the rule."""
    with pytest.raises(SpecError) as caught:
        due(**options)
    assert str(caught.value).startswith(f"traffic 'x', arrival 'ramp_up': {complaint}")
