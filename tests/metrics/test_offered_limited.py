"""offered_limited: whether a throughput measures the arrivals or the server."""

from __future__ import annotations

import pytest

from pytest_llmperf.metrics import offered_limited


@pytest.fixture
def served(record, replay):
    """Replay 100 requests, one due every 100 ms, through a server of ``places`` places.

    Each takes ``took`` ms (a function of its number, or a number); ``client`` holds the queue
    in the client (a cap on concurrency), otherwise the server has it.
    """

    def make(took, places, *, client=True, count=100, gap=100):
        free = [0] * places
        records = []
        for number in range(count):
            due = number * gap
            place = free.index(min(free))
            start = max(due, free[place])
            length = took(number) if callable(took) else took
            free[place] = start + length
            sent = start if client else due
            records.append(record(sent, [start + 1, start + length], [1, length // 10], due=due))
        return replay(*records, offered_rate=1000 / gap)

    return make


@pytest.mark.parametrize("client", [True, False])
def test_a_server_that_keeps_up_is_limited_by_the_arrivals(served, client):
    """A second a request, 20 places, 10 arrivals a second: half of it is idle."""
    assert offered_limited(served(1000, 20, client=client))


@pytest.mark.parametrize("client", [True, False])
@pytest.mark.parametrize("took", [1250, 1150])
def test_a_server_that_falls_behind_is_not(served, client, took):
    """10 places at 1.25 or 1.15 s: 8 or 8.7 a second of 10, the queue in client or server.

    With the queue in the server a request's own latency grows with it, so that the time after
    the last arrival is no longer than a late request: that alone would not show it.
    """
    assert not offered_limited(served(took, 10, client=client))


def test_longer_answers_towards_the_end_do_not_look_like_falling_behind(served):
    """0.5 s each in the first two thirds, then 2 s for four times the tokens; places enough."""
    assert offered_limited(served(lambda n: 500 if n < 66 else 2000, 50))


def test_a_client_queue_is_the_caps_limit_not_the_arrivals(served):
    """Bursts of 10 on 5 places: the cap holds requests back, though the server keeps up."""
    assert not offered_limited(served(lambda n: 900 if n % 20 < 10 else 10, 5))


def test_a_schedule_shorter_than_a_request_measures_the_server(served):
    """10 arrivals within 0.09 s, 1 s each: the time is the server's, not the schedule's."""
    assert not offered_limited(served(1000, 50, count=10, gap=10))


def test_all_at_once_has_no_rate_to_reach(record, replay):
    """A closed loop."""
    assert not offered_limited(replay(record(0, [100]), record(0, [200])))
    assert not offered_limited(replay(record(0, [100]), record(0, [200]), offered_rate=5.0))


def test_nothing_completed_says_nothing(record, replay):
    """All failed, or no request at all."""
    failed = [record(due, [due + 5], error="x") for due in (0, 1000, 2000)]
    assert not offered_limited(replay(*failed, offered_rate=1.0))
    assert not offered_limited(replay(offered_rate=1.0))
