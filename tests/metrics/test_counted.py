"""Figures from the server's own counters: speculation, and where a request's time went."""

from __future__ import annotations

import pytest

from pytest_llmperf.metrics import METRICS

SPECULATION = ("acceptance_length", "acceptance_rate", "tokens_per_step", "step_time")

COUNTERS = {
    "vllm:spec_decode_num_drafts_total": 100.0,
    "vllm:spec_decode_num_draft_tokens_total": 400.0,
    "vllm:spec_decode_num_accepted_tokens_total": 190.0,
    "vllm:inter_token_latency_seconds_sum": 4.5,
    "vllm:inter_token_latency_seconds_count": 500.0,
}


@pytest.fixture
def value(record, replay):
    """Return a figure of a replay during which counters rose by that much."""
    return lambda name, counters: METRICS[name].value(replay(record(0, [10]), counters=counters))


def test_a_draft_brings_what_was_accepted_and_one_more(value):
    """190 tokens accepted in 100 drafts, and each draft's own next token: 2.9."""
    assert value("acceptance_length", COUNTERS) == pytest.approx(2.9)
    assert value("acceptance_rate", COUNTERS) == pytest.approx(190 / 400)


def test_a_step_may_have_no_draft(value):
    """500 steps, 100 of them with a draft, brought 500 + 190 tokens: 1.38 a step."""
    assert value("tokens_per_step", COUNTERS) == pytest.approx(1.38)


def test_a_steps_time_does_not_depend_on_what_it_brought(value):
    """4.5 s in 500 steps: 9 ms each, whether 190 draft tokens were accepted or none."""
    assert value("step_time", COUNTERS) == pytest.approx(9.0)
    none = {**COUNTERS, "vllm:spec_decode_num_accepted_tokens_total": 0.0}
    assert value("step_time", none) == pytest.approx(9.0)
    assert value("acceptance_length", none) == 1.0
    assert value("acceptance_rate", none) == 0.0


@pytest.mark.parametrize("name", SPECULATION)
@pytest.mark.parametrize(
    "counters",
    [
        None,
        {},
        {"vllm:inter_token_latency_seconds_sum": 4.5, "vllm:inter_token_latency_seconds_count": 5},
        dict.fromkeys(COUNTERS, 0.0),
        {
            **COUNTERS,
            "vllm:spec_decode_num_drafts_total": 0.0,
            "vllm:spec_decode_num_draft_tokens_total": 0.0,
            "vllm:spec_decode_num_accepted_tokens_total": 0.0,
        },
    ],
    ids=["not read", "empty", "no speculation", "idle", "nothing drafted"],
)
def test_without_a_draft_speculation_has_no_figure(value, name, counters):
    """Absent: an acceptance length of 1 would be a result."""
    assert value(name, counters) is None


@pytest.mark.parametrize("name", ["queue_time", "prefill_time", "decode_time"])
def test_where_a_requests_time_went(value, name):
    """The histogram took in 0.5 s over 20 requests: 25 ms each; of none, or unread: absent."""
    histogram = f"vllm:request_{name}_seconds"
    counters = {f"{histogram}_sum": 0.5, f"{histogram}_count": 20.0}
    assert value(name, counters) == pytest.approx(25.0)
    assert value(name, dict.fromkeys(counters, 0.0)) is None
    assert value(name, {}) is None
    assert value(name, None) is None
