"""What is told while a campaign runs."""

import pytest

from pytest_llmperf.campaign.progress import Progress, duration
from pytest_llmperf.campaign.spec import CampaignSpec, Plan
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import TrafficSpec

SPEC = CampaignSpec((ServerSpec.of("a", "sim", "m"),), (TrafficSpec("t", "random"),))


@pytest.mark.parametrize(
    ("seconds", "text"), [(7.6, "8 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_a_duration_is_read_at_a_glance(seconds, text):
    """Two units at most."""
    assert duration(seconds) == text


def test_what_remains_is_told_from_the_steps_so_far(monkeypatch):
    """2 launches x 2 replays: after one of each (60 s, 10 s), 1 launch and 3 replays are left."""
    clock = iter([0.0, 0.0, 60.0, 60.0, 70.0, 70.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    said = []
    progress = Progress(SPEC, Plan(2, 2), said.append)
    progress.step("starting")
    progress.done("launch")
    progress.step("replay 1")
    progress.done("replay")
    progress.step("replay 2")
    assert said == ["starting", "replay 1", "replay 2 · about 1 min 30 s left"]
