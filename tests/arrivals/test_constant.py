"""constant: even gaps."""

from __future__ import annotations

import pytest

from pytest_llmperf.arrivals import ARRIVALS
from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.traffic import TrafficSpec


def due(**options):
    """Return the schedule of a traffic with these options."""
    return ARRIVALS["constant"].due_ns(
        TrafficSpec.of("x", "random", {}, {"arrival": "constant", **options})
    )


def test_gaps_are_even_as_vllms_for_an_infinite_burstiness():
    """Five at 2 a second: the first after one gap, the last at 5 / 2 s."""
    assert due(num_prompts=5, request_rate=2) == [
        500_000_000,
        1_000_000_000,
        1_500_000_000,
        2_000_000_000,
        2_500_000_000,
    ]


def test_rounding_does_not_add_up():
    """3,000 at 3 a second: a gap of 333,333,333.3 ns, the last still at 1,000 s."""
    times = due(num_prompts=3000, request_rate=3)
    assert times[:3] == [333_333_333, 666_666_667, 1_000_000_000]
    assert times[-1] == 1_000_000_000_000


def test_without_a_rate_all_are_due_at_once():
    """request_rate inf."""
    assert due(num_prompts=3) == [0, 0, 0]


def test_it_has_no_options():
    """Any is a mistake, and the message says that there is none."""
    with pytest.raises(SpecError) as caught:
        due(request_rate=1, arrival_options={"gap": 1})
    assert str(caught.value) == (
        "traffic 'x', arrival 'constant': unknown option 'gap'. Known: none"
    )
