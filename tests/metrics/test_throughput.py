"""output_tps and its relatives, rates, concurrency and errors on literal milliseconds."""

from __future__ import annotations

import pytest

from pytest_llmperf.metrics import METRICS


@pytest.fixture
def value(replay):
    """Return a scalar metric's value of some records."""
    return lambda name, *records, **fields: METRICS[name].value(replay(*records, **fields))


def test_throughput_is_over_first_send_to_last_chunk(record, value):
    """4 + 6 tokens from 1,000 to 3,000 ms: 5 a second; the stream's end at 9,000 is no output."""
    records = record(1000, [1500], [4]), record(2000, [3000], [6], done=9000)
    assert value("output_tps", *records) == 5.0


def test_total_throughput_counts_prompts_too(record, value):
    """(30 + 4) + (50 + 6) tokens in 2 s."""
    records = (
        record(1000, [1500], [4], prompt_tokens=30),
        record(2000, [3000], [6], prompt_tokens=50),
    )
    assert value("total_tps", *records) == 45.0


def test_output_tokens_are_the_servers_count(record, value):
    """Usage says 9 where the chunks' tokens sum to 4; without usage the chunks count."""
    assert value("output_tps", record(0, [1000], [4], output_tokens=9)) == 9.0
    assert value("output_tps", record(0, [1000], [4], output_tokens=None)) == 4.0


def test_an_uncounted_prompt_is_not_zero_tokens(record, value):
    """One prompt that the server did not count: no total, but an output throughput."""
    records = record(0, [1000]), record(0, [1000], prompt_tokens=None)
    assert value("total_tps", *records) is None
    assert value("uncached_tps", *records, counters={}) is None
    assert value("output_tps", *records) == 2.0


def test_a_warm_cache_does_not_count_as_computed(record, value):
    """20 prompt tokens of which 14 were cached, and 5 of output, in 1 s: 11 computed."""
    records = record(0, [1000], [2]), record(0, [900], [3])
    counters = {"vllm:prompt_tokens_cached_total": 14.0}
    assert value("uncached_tps", *records, counters=counters) == 11.0
    assert value("total_tps", *records, counters=counters) == 25.0


def test_cached_tokens_come_from_usage_where_no_counter_says(record, value):
    """One response says 6, the other, which had no hit, says nothing; no one says: absent."""
    hit, miss = record(0, [1000], cached_tokens=6), record(0, [1000])
    assert value("uncached_tps", hit, miss) == 16.0  # 20 + 2 - 6
    assert value("uncached_tps", miss, miss) is None


@pytest.mark.parametrize("name", ["output_tps", "total_tps", "request_rate", "peak_output_tps"])
def test_only_completed_requests_count(record, value, name):
    """A cut stream's tokens are no throughput, as in vLLM; with none completed there is none."""
    good = record(0, [1000], [4])
    cut = record(0, [500], [100], error="cut off")
    assert value(name, good, cut) == value(name, good)
    assert value(name, cut) is None


def test_the_time_of_a_failed_request_counts(record, value):
    """The server worked on it until 2,000 ms: 4 tokens in 2 s."""
    good, cut = record(0, [1000], [4]), record(0, [2000], error="cut off")
    assert value("output_tps", good, cut) == 2.0


def test_request_rate_and_offered_rate(record, value):
    """Two completed in 4 s, where 3 a second were scheduled; a closed loop offers no rate."""
    records = record(0, [1000]), record(500, [4000])
    assert value("request_rate", *records) == 0.5
    assert value("offered_rate", *records, offered_rate=3.0) == 3.0
    assert value("offered_rate", *records) is None


def test_failed_and_incomplete_requests_are_the_error_rate(record, value):
    """One good, one failed, one that brought nothing, one never sent: 3 of 4."""
    good = record(0, [10])
    failed = record(0, [10], error="HTTP 500", http_status=500)
    silent = record(0, [])
    unsent = record(None, [], due=0, error="connection refused")
    assert value("error_rate", good, failed, silent, unsent) == 0.75
    assert value("error_rate", good) == 0.0
    assert value("error_rate", failed) == 1.0
    assert value("error_rate") is None


def test_the_peak_counts_tokens_in_any_second(record, value):
    """Chunks of 5, 7 and 2 tokens at 900, 1,500 and 1,950 ms: 12 within [900, 1,900).

    vLLM counts chunks in seconds from the first send: 1 and 2. Counting tokens there would
    still split the first two.
    """
    assert value("peak_output_tps", record(0, [900, 1500, 1950], [5, 7, 2])) == 12.0


def test_the_second_of_a_peak_has_no_end(record, value):
    """[t, t + 1 s): what comes a whole second later is not in it."""
    assert value("peak_output_tps", record(0, [500, 1500])) == 1.0
    assert value("peak_output_tps", record(0, [500, 1499])) == 2.0


def test_the_peak_pools_requests(record, value):
    """Two streams at once, recorded one after the other."""
    records = record(0, [100, 2000], [3, 1]), record(0, [50, 1049], [4, 1])
    assert value("peak_output_tps", *records) == 8.0  # 4 + 3 + 1 in [50, 1,050)


def test_peak_concurrency_is_at_an_instant(record, value):
    """0-100, 50-200 and 100-300 ms: two at once, though all three run within one second."""
    records = record(0, [100]), record(50, [200]), record(100, [300])
    assert value("peak_concurrency", *records) == 2.0
    assert value("peak_concurrency") is None
    assert value("peak_concurrency", record(0, [], error="refused")) is None


def test_a_request_is_in_flight_until_its_stream_ends(record, value):
    """Last chunk at 100, stream ended at 150: still there when the next is sent at 120."""
    assert value("peak_concurrency", record(0, [100], done=150), record(120, [200])) == 2.0


def test_failed_requests_are_in_flight_too(record, value):
    """To their last sign of life: a chunk at 90, where no end was seen."""
    failed = record(0, [90], done=None, error="stalled")
    assert value("peak_concurrency", failed, record(50, [200])) == 2.0


def test_steady_throughput_leaves_ramp_and_drain_out(record, value):
    """Two streams, 0-4 s and 1-3 s; both run from 1 to 3 s, in which 40 + 60 tokens came.

    Over the whole replay it is 150 tokens, in the 3.5 s to the last of them.
    """
    records = (
        record(0, [500, 2000, 3500], [20, 40, 30], done=4000),
        record(1000, [2500], [60], done=3000),
    )
    assert value("steady_output_tps", *records) == 50.0  # 100 tokens in 2 s
    assert value("output_tps", *records) == 150 / 3.5


def test_the_short_gaps_of_a_closed_loop_are_in_the_steady_window(record, value):
    """Two places; in one a request follows another after 10 ms. All of 0 to 2 s is steady."""
    records = (
        record(0, [1000], [10]),
        record(1010, [2000], [10]),
        record(0, [1500, 2000], [5, 5]),
    )
    assert value("steady_output_tps", *records) == 15.0


def test_a_momentary_peak_is_no_steady_state(record, value):
    """Two streams that overlap for 50 of 1,000 ms: absent, not a rate over 50 ms."""
    assert value("steady_output_tps", record(0, [525]), record(475, [1000])) is None
    assert value("steady_output_tps") is None


def test_the_servers_counters_give_hit_rate_and_preemptions(record, value):
    """300 of 1,200 looked-up tokens; without the counters, or without look-ups, absent."""
    counters = {
        "vllm:prefix_cache_hits_total": 300.0,
        "vllm:prefix_cache_queries_total": 1200.0,
        "vllm:num_preemptions_total": 0.0,
    }
    idle = counters | {"vllm:prefix_cache_queries_total": 0.0}
    good = record(0, [10])
    assert value("prefix_hit_rate", good, counters=counters) == 0.25
    assert value("prefix_hit_rate", good, counters=idle) is None
    assert value("prefix_hit_rate", good) is None
    assert value("preemptions", good, counters=counters) == 0.0
    assert value("preemptions", good) is None
