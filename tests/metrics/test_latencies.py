"""ttft, ttft_due, queue_delay, e2el, itl, icl and tpot on literal milliseconds."""

from __future__ import annotations

import pytest

from pytest_llmperf.metrics import METRICS


@pytest.fixture
def samples(replay):
    """Return a metric's samples of some records."""
    return lambda name, *records: METRICS[name].samples(replay(*records))


def test_ttft_is_from_the_send_to_the_first_chunk(record, samples):
    """Sent at 100, first chunk at 150 and at 230: 50 and 130 ms."""
    assert samples("ttft", record(100, [150, 170]), record(100, [230])) == [50.0, 130.0]


def test_ttft_due_has_the_clients_queue_in_it(record, samples):
    """Due at 100, held back until 400, first chunk at 450: the user waited 350 ms, not 50.

    Timing from the send alone is coordinated omission: the slower the server, the longer
    requests wait where nobody times them.
    """
    late = record(400, [450], due=100)
    assert samples("ttft", late) == [50.0]
    assert samples("ttft_due", late) == [350.0]
    assert samples("queue_delay", late) == [300.0]


def test_e2el_ends_with_the_last_chunk_of_output(record, samples):
    """The usage chunk and the end of the stream, at 290, are no output: 250 - 100 = 150 ms."""
    assert samples("e2el", record(100, [150, 250], done=290)) == [150.0]


def test_itl_is_a_gap_spread_over_the_tokens_of_its_chunk(record, samples):
    """Gaps of 20, 60 and 30 ms that brought 1, 3 and 2 tokens: six values, one a token.

    One value a chunk (20, 60, 30: mean 36.7 ms) is ``icl``; calling that a token's latency
    makes speculative decoding look slow. Per token it is 110 / 6 = 18.3 ms.
    """
    chunked = record(0, [100, 120, 180, 210], [2, 1, 3, 2])
    assert samples("itl", chunked) == [20.0, 20.0, 20.0, 20.0, 15.0, 15.0]
    assert samples("icl", chunked) == [20.0, 60.0, 30.0]


def test_itl_and_icl_agree_where_a_chunk_is_a_token(record, samples):
    """And no gap leads from one request to the next, or from the send to the first chunk."""
    records = record(0, [50, 60, 75]), record(500, [530]), record(600, [640, 660])
    assert samples("itl", *records) == samples("icl", *records) == [10.0, 15.0, 20.0]


def test_tpot_divides_by_the_tokens_after_the_first_chunk(record, samples):
    """200 ms after the first chunk for 8 - 3 = 5 tokens: 40 ms."""
    assert samples("tpot", record(0, [100, 180, 300], [3, 1, 4])) == [40.0]


def test_tpot_counts_what_the_server_counted(record, samples):
    """Chunks that bear no counts say 3, usage says 11: 200 ms over 10 tokens."""
    counted = record(0, [100, 200, 300], output_tokens=11, counted_by="chunk")
    assert samples("tpot", counted) == [20.0]


def test_a_single_token_has_no_tpot(record, samples):
    """Left out, not 0: it would pull the mean down."""
    assert samples("tpot", record(0, [100]), record(0, [100, 130])) == [30.0]
    assert samples("tpot", record(0, [100], [4])) == []


@pytest.mark.parametrize(
    "broken",
    [
        {"error": "cut off after 2 of 5 tokens"},
        {"sent": None},
        {"chunks": []},
        {"chunks": [], "error": "HTTP 500", "http_status": 500},
    ],
)
@pytest.mark.parametrize("name", ["ttft", "ttft_due", "queue_delay", "e2el", "itl", "icl", "tpot"])
def test_a_request_that_did_not_complete_gives_no_sample(record, samples, name, broken):
    """A missing TTFT is missing, not 0; a cut stream's short times do not help a mean."""
    fields = {"sent": 0, "chunks": [1, 2], "due": 0} | broken
    good = record(100, [150, 160])
    bad = record(fields.pop("sent"), fields.pop("chunks"), **fields)
    assert samples(name, bad, good, bad) == samples(name, good)
    assert len(samples(name, good)) == 1
    assert samples(name, bad) == []
