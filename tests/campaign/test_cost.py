"""What a launch and a replay will cost, and where that is known from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmperf import attach, random, sharegpt, sim, vllm
from pytest_llmperf.campaign.cost import (
    Cost,
    LaunchCost,
    assumed_replay,
    launch_cost,
    replay_cost,
    warm_up_share,
)
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.store.costs import Took

BASE = vllm("base", "m")
CHAT = random("chat", num_prompts=100, max_concurrency=10, output_len=50)


class Past:
    """Stands in for earlier runs."""

    def __init__(self, startups=None, replays=None):
        self._startups, self._replays = startups, replays

    def startups(self, server, machine):
        return self._startups and Took(self._startups, "r1")

    def replays(self, server, traffic, machine):
        return self._replays and Took(self._replays, "r1")


def nights(**figures):
    night = Night("2026-11-30", "host", figures)
    return Baseline(Machine(), "base", "chat", "0" * 16, {}, {}, (night,))


def test_the_first_launch_costs_what_the_first_cost_last_time():
    """It compiles; the later ones cost their mean, (70 + 80) / 2."""
    cost = launch_cost(BASE, None, Past(startups=(150.0, 70.0, 80.0)), None)
    assert cost == LaunchCost(150.0, 75.0, "measured, run r1")


@pytest.mark.parametrize(("only", "later"), [(160.0, 75.0), (40.0, 40.0)])
def test_one_launch_tells_little_of_the_next(only, later):
    """It may have compiled: 75 s are assumed, or less where even the first took less."""
    cost = launch_cost(BASE, None, Past(startups=(only,)), None)
    assert cost == LaunchCost(only, later, "measured, run r1; later ones assumed")


def test_without_a_run_the_last_night_tells():
    """startup_s is stored launch by launch; request_rate gives 100 / 5 = 20 s a replay."""
    stored = nights(startup_s=((120.0,), (60.0,), (64.0,)), request_rate=((4.0, 6.0), (5.0,)))
    source = "measured, accepted night 2026-11-30"
    assert launch_cost(BASE, None, Past(), stored) == LaunchCost(120.0, 62.0, source)
    assert replay_cost(BASE, CHAT, None, Past(), stored) == Cost(20.0, source)


def test_without_anything_it_is_assumed_and_said():
    """150 s, then 75 s; 10 waves of 50 tokens of 20 ms are 10 s."""
    assert launch_cost(BASE, None, Past(), None) == LaunchCost(150.0, 75.0, "assumed")
    assert replay_cost(BASE, CHAT, None, Past(), nights()) == Cost(10.0, "assumed")


def test_a_run_goes_before_a_night():
    """It is of this very server on this very host, and newer."""
    stored = nights(request_rate=((1.0,),))
    cost = replay_cost(BASE, CHAT, None, Past(replays=(12.0, 14.0)), stored)
    assert cost == Cost(13.0, "measured, run r1")


def test_what_is_simulated_or_runs_already_is_not_waited_for():
    """No weights are loaded; nothing is launched."""
    assert launch_cost(sim("s", "m"), None, Past(), None).first == 2.0
    assert launch_cost(attach("here"), None, Past(), None) == LaunchCost(0, 0, "it runs already")


@pytest.mark.parametrize(
    ("traffic", "seconds"),
    [
        # 400 arrivals at 2 a second take 200 s; 40 waves of 200 tokens of 20 ms only 160 s.
        (sharegpt("x", num_prompts=400, request_rate=2, max_concurrency=10), 200.0),
        (sharegpt("x", num_prompts=400, request_rate=10, max_concurrency=10), 160.0),
        # All at once: 512 requests, 256 of them together, are two waves of 4 s.
        (sharegpt("x", num_prompts=512), 8.0),
        (replace(CHAT, num_prompts=5), 1.0),
    ],
)
def test_a_recipe_alone_gives_a_time(traffic, seconds):
    """The arrivals', or that of the output where it takes longer; nothing is built or read."""
    assert assumed_replay(traffic) == pytest.approx(seconds)


def test_a_warm_up_is_a_part_of_a_replay():
    """10 of 100 requests; never more than a whole replay."""
    assert warm_up_share(CHAT) == 0.1
    assert warm_up_share(replace(CHAT, num_warmups=0)) == 0.0
    assert warm_up_share(replace(CHAT, num_warmups=300)) == 1.0
