"""poisson: vLLM's schedule for the same seed, its mean and its burstiness."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest

from pytest_llmperf.arrivals import ARRIVALS
from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.traffic import TrafficSpec


def due(**options):
    """Return the schedule of a traffic with these options."""
    return ARRIVALS["poisson"].due_ns(TrafficSpec.of("x", "random", {}, options))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # get_request of vLLM 0.32.0, its clock replaced by one that stands still, after
        # np.random.seed(seed): --num-prompts --request-rate --seed --burstiness as here.
        (
            {"num_prompts": 6, "request_rate": 5, "seed": 0},
            [178465961, 460094394, 667116863, 843637921, 967204384, 1200000000],
        ),
        (
            {
                "num_prompts": 8,
                "request_rate": 4,
                "seed": 7,
                "arrival_options": {"burstiness": 0.5},
            },
            [
                *(8641027, 293861891, 400795216, 1174234746),
                *(1297444728, 1365014293, 1921291680, 2000000000),
            ],
        ),
        (
            {"num_prompts": 6, "request_rate": 5, "seed": 5, "arrival_options": {"burstiness": 3}},
            [206455177, 335684473, 869534311, 1005565328, 1091662246, 1200000000],
        ),
        (
            {
                "num_prompts": 5,
                "request_rate": 2,
                "arrival_options": {"burstiness": math.inf},
            },
            [500000000, 1000000000, 1500000000, 2000000000, 2500000000],
        ),
    ],
)
def test_the_schedule_is_vllms(options, expected):
    """The same seed, rate and burstiness give vLLM's due times, to the nanosecond."""
    assert due(**options) == expected


def test_without_a_rate_all_are_due_at_once():
    """request_rate inf: the client's concurrency alone holds requests back."""
    assert due(num_prompts=4, max_concurrency=2) == [0, 0, 0, 0]


def test_the_last_request_is_due_at_count_over_rate():
    """Whatever the seed: 1,000 at 50 a second end at exactly 20 s, in order."""
    for seed in range(5):
        times = due(num_prompts=1000, request_rate=50, seed=seed)
        assert times[-1] == 20_000_000_000
        assert list(times) == sorted(times)


@pytest.mark.parametrize(("burstiness", "variation"), [(0.25, 2.0), (1.0, 1.0), (4.0, 0.5)])
def test_burstiness_sets_how_uneven_the_gaps_are(burstiness, variation):
    """A gamma distribution of shape b has a coefficient of variation of 1 / sqrt(b)."""
    times = due(num_prompts=20_000, request_rate=10, arrival_options={"burstiness": burstiness})
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    found = statistics.pstdev(gaps) / statistics.fmean(gaps)
    assert found == pytest.approx(variation, rel=0.05)


def test_gaps_too_small_for_a_float_are_no_gaps():
    """A burstiness of almost 0: everything at once, and no division by zero."""
    times = due(num_prompts=1, request_rate=10, arrival_options={"burstiness": 1e-9})
    assert times == [0]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"burstiness": 0}, "burstiness is 0, not a number above 0"),
        ({"burstiness": -1}, "burstiness is -1, not a number above 0"),
        ({"burstiness": math.nan}, "burstiness is nan, not a number above 0"),
        ({"burstiness": "1"}, "burstiness is '1', not a number above 0"),
        ({"bursty": 1}, "unknown option 'bursty'. Known: burstiness"),
    ],
)
def test_options_that_cannot_be_are_refused(options, complaint):
    """With the traffic, the arrival process, the value and the rule."""
    with pytest.raises(SpecError) as caught:
        due(request_rate=1, arrival_options=options)
    assert str(caught.value) == f"traffic 'x', arrival 'poisson': {complaint}"
