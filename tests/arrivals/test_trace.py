"""trace: the recorded times, and what has none."""

from __future__ import annotations

import pytest

from pytest_llmperf.arrivals import ARRIVALS
from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.traffic import TrafficSpec


def due(recorded, dataset="trace", **options):
    """Return the schedule of a traffic whose dataset has these times."""
    common = {"num_prompts": 3, "arrival": "trace", **options}
    return ARRIVALS["trace"].due_ns(TrafficSpec.of("x", dataset, {}, common), recorded)


def test_requests_are_due_when_they_were_recorded():
    """Neither the seed nor a concurrency changes anything."""
    times = (0, 0, 3_000_000_001)
    assert due(times) == [0, 0, 3_000_000_001]
    assert due(times, seed=9, max_concurrency=2) == [0, 0, 3_000_000_001]


def test_a_dataset_without_times_is_refused_and_told_which_has_them():
    """Instead of sending everything at once."""
    with pytest.raises(SpecError) as caught:
        due(None, dataset="sharegpt")
    assert str(caught.value) == (
        "traffic 'x', arrival 'trace': dataset 'sharegpt' has no recorded times; of the datasets "
        "here 'trace' has. Leave arrival out for arrivals at request_rate"
    )


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"request_rate": 5}, "request_rate is 5, but a trace has its own times; scale them with "),
        ({"arrival_options": {"speed": 2}}, "unknown option 'speed'. Known: none"),
    ],
)
def test_options_that_cannot_be_are_refused(options, complaint):
    """A rate beside the recorded times would contradict them."""
    with pytest.raises(SpecError) as caught:
        due((0, 1, 2), **options)
    assert str(caught.value).startswith(f"traffic 'x', arrival 'trace': {complaint}")
