from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_llmperf.errors import ReplayError, ServerDiedError, StallError
from pytest_llmperf.model.launch import Target
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.replay import replay, warm_up
from pytest_llmperf.replay.run import send_lags
from tests.replay.scripted import (
    CHUNKED,
    DONE,
    HEAD,
    Client,
    Script,
    always,
    answer,
    chunk,
    event,
    scripted,
    traffic,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_llmperf.model.record import Replay

LATE_NS = 500_000_000
"""What a noisy machine may add to anything."""


def run(script: Script, made: Traffic, tmp_path: Path, stall_timeout: float = 15.0) -> Replay:
    with scripted(script) as server:
        return replay(made, server.target, work=tmp_path, salt=None, stall_timeout=stall_timeout)


def errors(replayed: Replay) -> list[str | None]:
    return [record.error for record in replayed.records]


# --- schedules


def test_open_loop_sends_when_requests_are_due(tmp_path: Path) -> None:
    """Due at 0, 0.1, 0.1 and 0.3 s: none leaves early, none waits for another's answer."""

    def slow(client: Client) -> None:
        while client.request() is not None:
            time.sleep(0.4)
            client.send(answer(3))

    replayed = run(slow, traffic(0.0, 0.1, 0.1, 0.3), tmp_path)
    first = replayed.records[0].due_ns
    assert errors(replayed) == [None] * 4
    due = [record.due_ns - first for record in replayed.records]
    assert due == [0, 100_000_000, 100_000_000, 300_000_000]
    for record in replayed.records:
        assert record.sent_ns is not None
        assert 0 <= record.sent_ns - record.due_ns < LATE_NS
    assert replayed.offered_rate == pytest.approx(10.0)
    assert 0 <= replayed.health.send_lag_p99_ns <= replayed.health.send_lag_max_ns < LATE_NS


def test_closed_loop_keeps_as_many_in_flight_as_asked(tmp_path: Path) -> None:
    """Six requests, two at a time, in order, on two connections opened before the start."""
    lock = threading.Lock()
    in_flight: list[int] = [0]
    seen: list[int] = []

    def script(client: Client) -> None:
        while client.request() is not None:
            with lock:
                in_flight[0] += 1
                seen.append(in_flight[0])
            time.sleep(0.05)
            with lock:
                in_flight[0] -= 1
            client.send(answer(3))

    with scripted(script) as server:
        made = traffic(*[0.0] * 6, max_concurrency=2)
        replayed = replay(made, server.target, work=tmp_path, salt=None)
        assert len([client for client in server.clients if client.requests]) == 2
    assert errors(replayed) == [None] * 6
    assert max(seen) == 2
    sent = [record.sent_ns or 0 for record in replayed.records]
    assert sent == sorted(sent)
    # What the cap held back says nothing about the client's lateness.
    assert replayed.health.send_lag_max_ns < LATE_NS
    assert sent[5] - replayed.records[5].due_ns > 90_000_000


def test_with_rate_and_cap_requests_wait_in_arrival_order(tmp_path: Path) -> None:
    """Due at 0, 0.1 and 0.2 s, one at a time, 0.3 s each: sent at 0, 0.3 and 0.6 s.

    Their places in the schedule stay: what a user waited counts from there.
    """

    def slow(client: Client) -> None:
        while client.request() is not None:
            time.sleep(0.3)
            client.send(answer(3))

    replayed = run(slow, traffic(0.0, 0.1, 0.2, max_concurrency=1), tmp_path)
    start = replayed.records[0].due_ns
    assert [record.due_ns - start for record in replayed.records] == [0, 100_000_000, 200_000_000]
    sent = [(record.sent_ns or 0) - start for record in replayed.records]
    for was, wanted in zip(sent, (0, 300_000_000, 600_000_000), strict=True):
        assert wanted <= was < wanted + LATE_NS
    assert replayed.health.send_lag_max_ns < LATE_NS
    assert replayed.max_concurrency == 1


def test_a_burst_goes_out_on_connections_of_its_own(tmp_path: Path) -> None:
    """300 requests due at once, without a cap: in flight together, 20 µs between sends."""
    together = threading.Barrier(300, timeout=15)

    def script(client: Client) -> None:
        if client.request() is not None:
            together.wait()
            client.send(answer(1))

    replayed = run(script, traffic(*[0.0] * 300, tokens=1), tmp_path)
    assert set(errors(replayed)) == {None}
    sent = [record.sent_ns or 0 for record in replayed.records]
    assert sent == sorted(sent)
    assert 0.9 * 299 * 20_000 < sent[-1] - sent[0] < LATE_NS


def test_lateness_is_the_clients_alone() -> None:
    """Due at 10, 10, 10 and 50; sent at 12, 15, 90 (held by the cap) and 57: 2, 3 and 7 late."""
    assert list(send_lags([10, 10, 10, 50], [12, 15, 90, 57], [0, 0, 1, 0])) == [2, 3, 7]


def test_lateness_is_counted_in_the_order_of_the_due_times() -> None:
    """Index 0 due at 10 and sent at 12, 1 (a later turn) due at 90 and sent at 91, 2 due at 10.

    2 left at 15, after 0: 3 late. By index it would follow the turn, and seem on time.
    """
    assert list(send_lags([10, 90, 10], [12, 91, 15], [0, 0, 0])) == [2, 3, 1]


def test_a_request_that_never_left_has_no_lateness() -> None:
    """A connection that failed says nothing about the schedule."""
    assert list(send_lags([10, 20], [0, 21], [0, 0])) == [1]


# --- what a server may do


def test_tokens_have_the_time_at_which_they_came(tmp_path: Path) -> None:
    """Events 50 ms apart, split in the middle or joined in one segment."""
    one, two, three, four = (chunk(event(count)) for count in (1, 2, 3, 4))
    script = always(
        CHUNKED + one, two[:40], two[40:], three + four + chunk(DONE) + b"0\r\n\r\n", pause=0.05
    )
    (record,) = run(script, traffic(0.0, tokens=4), tmp_path).records
    assert record.error is None
    assert list(record.chunk_tokens) == [1, 1, 1, 1]
    gaps = [b - a for a, b in zip(record.chunk_ns, record.chunk_ns[1:], strict=False)]
    assert 100_000_000 <= gaps[0] < 100_000_000 + LATE_NS  # two came in halves, 50 ms apart
    assert 50_000_000 <= gaps[1] < 50_000_000 + LATE_NS
    assert gaps[2] == 0  # one segment
    assert record.sent_ns is not None
    assert record.sent_ns < record.chunk_ns[0] < record.sent_ns + LATE_NS


def test_the_kernel_keeps_the_clock(tmp_path: Path) -> None:
    """On Linux over TCP every read has a stamp."""
    replayed = run(always(answer(3)), traffic(0.0), tmp_path)
    assert replayed.clock == "kernel"
    assert replayed.health.start_s > 0
    assert replayed.health.wall_s > 0
    assert replayed.health.cpu_s > 0


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5, 6])
def test_the_end_of_an_answer_may_come_in_pieces(tmp_path: Path, cut: int) -> None:
    """The last chunk split anywhere is still the end, and the connection serves again."""
    whole = answer(2)
    script = always(whole[:-cut], whole[-cut:], pause=0.01)
    with scripted(script) as server:
        made = traffic(0.0, 0.0, tokens=2, max_concurrency=1)
        replayed = replay(made, server.target, work=tmp_path, salt=None, stall_timeout=5)
        assert [len(client.requests) for client in server.clients if client.requests] == [2]
    assert errors(replayed) == [None, None]


def test_an_answer_byte_by_byte(tmp_path: Path) -> None:
    """The slowest split there is, head included."""
    whole = answer(1)
    script = always(*[whole[i : i + 1] for i in range(len(whole))], pause=0.0002)
    assert errors(run(script, traffic(0.0, tokens=1), tmp_path)) == [None]


def test_a_body_that_the_close_ends(tmp_path: Path) -> None:
    """Without chunks or a length the close ends the answer; each takes a new connection."""

    def script(client: Client) -> None:
        if client.request() is not None:
            client.send(HEAD + b"\r\n" + event(1), event(2) + DONE, pause=0.01)

    replayed = run(script, traffic(0.0, 0.0, 0.0, tokens=2, max_concurrency=1), tmp_path)
    assert errors(replayed) == [None] * 3
    assert replayed.health.reconnects == 0


def test_an_answer_with_a_length(tmp_path: Path) -> None:
    """A proxy may gather the stream and send it with a length; the connection is kept."""
    body = event(1) + event(2) + DONE
    script = always(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body[:50], body[50:])
    with scripted(script) as server:
        made = traffic(0.0, 0.0, tokens=2, max_concurrency=1)
        replayed = replay(made, server.target, work=tmp_path, salt=None)
        assert [len(client.requests) for client in server.clients if client.requests] == [2]
    assert errors(replayed) == [None, None]


def test_a_stream_that_is_cut_is_an_error_of_its_own(tmp_path: Path) -> None:
    """A reset, an orderly close and a good answer: each request has its own fate."""

    def script(client: Client) -> None:
        while (request := client.request()) is not None:
            prompt = json.loads(request.partition(b"\r\n\r\n")[2])["prompt"]
            if prompt == "fine":
                client.send(answer(3))
                continue
            client.send(CHUNKED + chunk(event(1)))
            time.sleep(0.05)
            if prompt == "reset":
                client.reset()
            return

    spec = TrafficSpec("cut", "literal", num_prompts=3)
    words = ("reset", "close", "fine")
    made = Traffic(spec, tuple(Request(i, 0, Prompt(word, 1, 3)) for i, word in enumerate(words)))
    reset, close, fine = run(script, made, tmp_path).records
    assert reset.error == "incomplete: 1 of 3 tokens (Connection reset by peer)"
    assert close.error == (
        "incomplete: 1 of 3 tokens (the server closed the connection in the middle of the answer)"
    )
    assert fine.error is None
    assert (len(reset.chunk_ns), reset.done_ns) == (1, None)


def test_a_refusal_is_told_in_the_servers_words(tmp_path: Path) -> None:
    """429 with a body: the status, the message, and a connection that goes on."""
    body = b'{"error": {"message": "too many requests", "code": 429}}'
    head = b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\n"
    script = always(head + b"content-length: %d\r\n\r\n" % len(body) + body)
    replayed = run(script, traffic(0.0, 0.0, max_concurrency=1), tmp_path)
    assert errors(replayed) == ["HTTP 429: too many requests"] * 2
    assert [record.http_status for record in replayed.records] == [429, 429]


def test_an_idle_connection_that_the_server_closed_is_not_used(tmp_path: Path) -> None:
    """The server closes 0.1 s after an answer; a request 0.6 s later goes on another."""

    def script(client: Client) -> None:
        if client.request() is not None:
            client.send(answer(3))
            time.sleep(0.1)

    replayed = run(script, traffic(0.0, 0.7), tmp_path)
    assert errors(replayed) == [None, None]
    assert replayed.health.reconnects == 0


def test_a_request_that_met_the_servers_close_is_sent_again(tmp_path: Path) -> None:
    """A used connection is closed without a byte as the request arrives: once more, and said."""

    def script(client: Client) -> None:
        if client.request() is not None:
            client.send(answer(3))
            if client.number < 2:  # 0 looked for an address
                client.request()

    replayed = run(script, traffic(0.0, 0.0, max_concurrency=1), tmp_path)
    assert errors(replayed) == [None, None]
    assert replayed.health.reconnects == 1


def test_a_fresh_connection_that_is_reset_is_an_error(tmp_path: Path) -> None:
    """A server that drops requests is not asked twice: the failure is its own."""

    def script(client: Client) -> None:
        if client.request() is not None:
            client.reset()

    with scripted(script) as server:
        replayed = replay(traffic(0.0, 0.0), server.target, work=tmp_path, salt=None)
        assert len(server.requests) == 2
    assert errors(replayed) == ["Connection reset by peer"] * 2
    assert replayed.health.reconnects == 0


def test_a_server_that_resets_everyone_leaves_errors_and_an_end(tmp_path: Path) -> None:
    """No connection lives long enough to be used: every request has its error, and it ends."""
    made = traffic(*[0.0] * 400, max_concurrency=100)
    with scripted(Client.reset) as server:
        replayed = replay(made, server.target, work=tmp_path, salt=None, stall_timeout=10)
    assert len(replayed.records) == 400
    assert None not in errors(replayed)


def test_a_large_request_is_written_whole(tmp_path: Path) -> None:
    """A prompt larger than the socket's buffers, to a server that reads it late."""

    def script(client: Client) -> None:
        time.sleep(0.1)
        while client.request() is not None:
            client.send(answer(1))

    prompt = Prompt("x" * 8_000_000, 1, 1)
    spec = TrafficSpec("large", "literal", num_prompts=1)
    made = Traffic(spec, (Request(0, 0, prompt),))
    with scripted(script) as server:
        replayed = replay(made, server.target, work=tmp_path, salt="a salt")
        body = json.loads(server.requests[0].partition(b"\r\n\r\n")[2])
    assert errors(replayed) == [None]
    assert len(body["prompt"]) == 8_000_000
    assert body["cache_salt"] == "a salt"


# --- stalls, and servers that are not there


def test_a_silent_stream_is_ended_while_others_go_on(tmp_path: Path) -> None:
    """One of two is silent for ten stall times: it has stalled, the other has its tokens.

    Ten, and not one: a stream that waits in the server's queue is silent too.
    """
    once = threading.Lock()

    def script(client: Client) -> None:
        if client.request() is None:
            return
        if once.acquire(blocking=False):
            client.request()
            return
        parts = [chunk(event(count)) for count in range(1, 61)]
        client.send(CHUNKED, *parts, chunk(DONE) + b"0\r\n\r\n", pause=0.05)

    replayed = run(script, traffic(0.0, 0.0, tokens=60), tmp_path, stall_timeout=0.2)
    assert sorted(map(str, errors(replayed))) == ["None", "stalled: no byte for 2 s"]


def test_a_server_that_hangs_ends_the_replay(tmp_path: Path) -> None:
    """No stream brings a byte: the error counts what was open and what had come."""

    def script(client: Client) -> None:
        if client.request() is not None:
            client.send(CHUNKED + chunk(event(1)))
            client.request()

    began = time.monotonic()
    with pytest.raises(StallError) as caught:
        run(script, traffic(0.0, 0.0, 20.0), tmp_path, stall_timeout=1.0)
    assert "no stream brought a byte for 1 s" in str(caught.value)
    assert "2 of 3 requests were open, 0 had ended" in str(caught.value)
    assert time.monotonic() - began < 15


def test_no_server_is_said_with_its_address(tmp_path: Path) -> None:
    """A refused connection names host and port, and nothing is left behind."""
    with scripted(always()) as server:
        port = server.port
    with pytest.raises(ReplayError, match=f"no connection to 127.0.0.1:{port}.*refused"):
        replay(traffic(0.0), Target("127.0.0.1", port, "m"), work=tmp_path, salt=None)
    assert list(tmp_path.iterdir()) == []


def test_a_host_name_may_have_addresses_that_nobody_listens_on(tmp_path: Path) -> None:
    """A name may stand for ::1 as well; the address that answers is used."""
    with scripted(always(answer(3))) as server:
        target = Target("localhost", server.port, "m")
        assert errors(replay(traffic(0.0), target, work=tmp_path, salt=None)) == [None]


def test_what_watch_raises_ends_the_replay(tmp_path: Path) -> None:
    """The server has died: its error goes on at once, and no load process stays."""

    def silent(client: Client) -> None:
        client.request()
        client.request()

    def watch() -> None:
        raise ServerDiedError("it died")

    before = psutil.Process().children()
    with scripted(silent) as server, pytest.raises(ServerDiedError, match="it died"):
        replay(traffic(0.0), server.target, work=tmp_path, salt=None, watch=watch)
    assert psutil.Process().children() == before
    assert list(tmp_path.iterdir()) == []


def test_a_load_process_that_breaks_down_is_an_error(tmp_path: Path) -> None:
    """Killed from outside: its status is said, and no result is made up."""

    def silent(client: Client) -> None:
        client.request()
        client.request()

    def watch() -> None:
        for child in psutil.Process().children():
            child.kill()

    with scripted(silent) as server, pytest.raises(ReplayError, match="ended with status -9"):
        replay(traffic(0.0), server.target, work=tmp_path, salt=None, watch=watch)


def test_progress_is_told(tmp_path: Path) -> None:
    """How many requests have ended, of how many, while the replay goes on."""
    told: list[tuple[int, int]] = []
    with scripted(always(answer(3))) as server:
        replay(
            traffic(0.0, 0.2, 1.2),
            server.target,
            work=tmp_path,
            salt=None,
            on_progress=lambda done, total: told.append((done, total)),
        )
    assert told[-1] == (2, 3)
    assert {total for _, total in told} == {3}


# --- warming up


def test_warm_up_sends_at_the_traffics_concurrency(tmp_path: Path) -> None:
    """The first requests, at once though due later, with a salt of their own."""
    together = threading.Barrier(3, timeout=15)

    def script(client: Client) -> None:
        while client.request() is not None:
            together.wait()
            client.send(answer(3))

    with scripted(script) as server:
        warm_up(
            traffic(0.0, 30.0, 60.0, 90.0, 99.0, max_concurrency=3),
            server.target,
            work=tmp_path,
            salt="abc",
        )
        bodies = [json.loads(r.partition(b"\r\n\r\n")[2]) for r in server.requests]
    assert [body["cache_salt"] for body in bodies] == ["abc-warmup"] * 3


def test_warm_up_fails_with_the_servers_answer(tmp_path: Path) -> None:
    """When no warm-up succeeds, the replay would not either: the answer says why."""
    body = b'{"error": {"message": "The model `x` does not exist."}}'
    head = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\n"
    script = always(head + b"content-length: %d\r\n\r\n" % len(body) + body)
    with (
        scripted(script) as server,
        pytest.raises(ReplayError, match=r"none of 2 .*HTTP 404: The model `x` does not exist"),
    ):
        warm_up(traffic(0.0, 0.0), server.target, work=tmp_path, salt=None)


def test_no_warm_up_where_none_is_wanted(tmp_path: Path) -> None:
    """``num_warmups=0`` sends nothing, not even to a server that is not there."""
    spec = TrafficSpec("t", "literal", num_prompts=1, num_warmups=0)
    made = Traffic(spec, (Request(0, 0, Prompt("x", 1, 1)),))
    warm_up(made, Target("127.0.0.1", 1, "m"), work=tmp_path, salt=None)
