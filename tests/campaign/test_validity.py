"""Replays that cannot be trusted."""

from dataclasses import replace

from pytest_llmperf.campaign.validity import Invalid, invalid_reason
from pytest_llmperf.model.record import ClientHealth, Replay, RequestRecord
from pytest_llmperf.model.traffic import TrafficSpec

HEALTHY = ClientHealth(
    send_lag_p99_ns=200_000,
    send_lag_max_ns=900_000,
    loop_lag_max_ns=3_000_000,
    cpu_s=0.5,
    wall_s=10.0,
    start_s=0.1,
)
DONE = RequestRecord(0, 0, 10, (20, 30), (1, 1), 40, asked_tokens=2, output_tokens=2)
SPEC = TrafficSpec("t", "random", num_prompts=4)
GOOD = Replay("t", "d", (DONE,) * 4, None, 4, "kernel", HEALTHY, "2026-11-30T10:00:00+00:00")


def failed(*errors):
    """Return a replay of four requests of which these failed."""
    bad = tuple(replace(DONE, error=error) for error in errors)
    return replace(GOOD, records=(*bad, *GOOD.records[len(bad) :]))


def test_a_replay_without_fault_is_valid():
    """Nothing to say about a good one."""
    assert invalid_reason(GOOD, SPEC) is None


def test_one_failed_request_is_one_too_many():
    """By default none may fail, and the message quotes the server's own words."""
    reason = invalid_reason(failed("HTTP 429: slow down"), SPEC)
    assert reason == Invalid(
        "requests", "1 of 4 requests failed (none may): 1 × HTTP 429: slow down"
    )


def test_the_traffic_may_allow_failures():
    """max_error_rate 25 % of four requests is one."""
    spec = replace(SPEC, max_error_rate=0.25)
    assert invalid_reason(failed("cut"), spec) is None
    assert "2 of 4 requests failed" in str(invalid_reason(failed("cut", "cut"), spec))


def test_equal_errors_are_counted_together():
    """Three resets are one line, not three."""
    assert "3 × reset" in str(invalid_reason(failed("reset", "reset", "reset"), SPEC))


def test_more_tokens_than_forced_are_not_the_traffic():
    """A server that does not honour the forced length was given other work."""
    replay = replace(GOOD, records=(replace(DONE, output_tokens=3),))
    assert "3 output tokens where 2 were forced" in str(invalid_reason(replay, SPEC))
    assert invalid_reason(replay, replace(SPEC, ignore_eos=False)) is None


def test_a_busy_load_process_is_client_bound():
    """At 95 % of a core the client may be what is slow."""
    busy = replace(GOOD, health=replace(HEALTHY, cpu_s=9.5))
    assert "client-bound" in str(invalid_reason(busy, SPEC))


def test_late_sends_are_client_bound():
    """30 ms behind the schedule at p99 is another schedule."""
    late = replace(GOOD, health=replace(HEALTHY, send_lag_p99_ns=30_000_000))
    assert "wrote requests late, p99 30.0 ms (limit 20 ms)" in str(invalid_reason(late, SPEC))


def test_a_kind_tells_the_clients_fault_from_the_servers():
    """Late sends alone are the client's; with a failed request or a wrong count they are not."""
    late = replace(GOOD, health=replace(HEALTHY, send_lag_p99_ns=30_000_000))
    wrong = replace(late, records=(replace(DONE, output_tokens=3),))
    both = replace(late, records=failed("cut").records)
    kinds = [invalid_reason(replay, SPEC) for replay in (late, wrong, both)]
    assert [found.kind for found in kinds if found] == ["client", "tokens", "requests"]
