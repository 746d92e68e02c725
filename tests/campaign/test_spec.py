"""What a campaign is to do."""

import pytest

from pytest_llmperf.campaign.spec import MOST, CampaignSpec, Plan
from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.plugin.flags import OPTIONS

A = ServerSpec.of("a", "sim", "m")
B = ServerSpec.of("b", "sim", "m")


def test_one_server_is_launched_as_often_as_planned():
    """A campaign of one server has that many turns, all its own."""
    assert CampaignSpec((A,), ()).turns(3) == (A, A, A)


def test_a_pair_takes_turns_that_cancel_a_drift():
    """A host that grows slower minute by minute weighs on both servers alike: A B B A."""
    assert CampaignSpec((A, B), ()).turns(3) == (A, B, B, A, A, B)


def test_a_pair_is_labelled_candidate_first():
    """The label names what is judged before what it is judged against."""
    assert CampaignSpec((A, B), ()).label == "b-vs-a"


def test_three_servers_are_no_campaign():
    """A comparison has two sides."""
    with pytest.raises(SpecError, match="one server or a pair, not 3"):
        CampaignSpec((A, B, A), ())


def test_a_plan_without_launches_is_refused():
    """The message names the option that sets it."""
    with pytest.raises(SpecError, match="--llmperf-launches is 0"):
        Plan(launches=0)


def test_a_plan_has_an_end():
    """Its turns are a list; the option that reads it has the same limit."""
    most = {option.name: option.most for option in OPTIONS if option.most is not None}
    assert most == {"launches": MOST, "replays": MOST}
    assert Plan(launches=1000).launches == 1000
    with pytest.raises(SpecError, match="--llmperf-replays is 1001: at most 1,000 are possible"):
        Plan(replays=1001)
