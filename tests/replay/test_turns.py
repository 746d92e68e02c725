"""Conversations through the load process: what waits for an answer, and for how long."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmperf.errors import ReplayError
from pytest_llmperf.model.launch import Target
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.replay import replay, warm_up
from pytest_llmperf.replay.run import _check
from tests.replay.scripted import (
    CHUNKED,
    DONE,
    Client,
    Script,
    answer,
    chunk,
    event,
    scripted,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_llmperf.model.record import Replay, RequestRecord

LATE_NS = 500_000_000
"""What a noisy machine may add to anything."""

MS = 1_000_000


def talks(
    *conversations: tuple[float, str, float],
    max_concurrency: int | None = None,
    tokens: int = 3,
) -> Traffic:
    """Return traffic of (when it starts in s, a letter a turn, think time in s) each."""
    requests: list[Request] = []
    for due_s, letters, think_s in conversations:
        for turn, letter in enumerate(letters):
            later = turn > 0
            prompt = Prompt(
                letter,
                1,
                tokens,
                after=len(requests) - 1 if later else None,
                think_ns=int(think_s * 1e9) if later else 0,
            )
            requests.append(Request(len(requests), 0 if later else int(due_s * 1e9), prompt))
    spec = TrafficSpec(
        "talks", "literal", num_prompts=len(requests), max_concurrency=max_concurrency
    )
    return Traffic(spec, tuple(requests))


def prompt_of(request: bytes) -> str:
    prompt: str = json.loads(request.partition(b"\r\n\r\n")[2])["prompt"]
    return prompt


class Server:
    """Answers after a time; what ``special`` names is answered by a script of its own.

    ``seen`` are the prompts in the order in which they came, ``most`` how many were in flight.
    """

    def __init__(self, seconds: float = 0.0, special: dict[str, bytes | None] | None = None):
        self.seen: list[str] = []
        self.most = 0
        self._now = 0
        self._seconds = seconds
        self._special = special or {}
        self._lock = threading.Lock()

    def __call__(self, client: Client) -> None:
        while (request := client.request()) is not None:
            prompt = prompt_of(request)
            with self._lock:
                self.seen.append(prompt)
                self._now += 1
                self.most = max(self.most, self._now)
            time.sleep(self._seconds)
            with self._lock:
                self._now -= 1
            reply = self._special.get(prompt, answer(3))
            if reply is None:
                client.send(CHUNKED + chunk(event(1)))
                time.sleep(0.05)
                client.reset()
                return
            client.send(reply)


def run(script: Script, made: Traffic, tmp_path: Path, stall_timeout: float = 15.0) -> Replay:
    with scripted(script) as server:
        return replay(made, server.target, work=tmp_path, salt=None, stall_timeout=stall_timeout)


def errors(replayed: Replay) -> list[str | None]:
    return [record.error for record in replayed.records]


def sent(record: RequestRecord) -> int:
    assert record.sent_ns is not None
    return record.sent_ns


def done(record: RequestRecord) -> int:
    assert record.done_ns is not None
    return record.done_ns


def refusal(message: str) -> bytes:
    body = json.dumps({"error": {"message": message}}).encode()
    head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


# --- when a turn is due


def test_a_turn_is_due_its_think_time_after_the_answer(tmp_path: Path) -> None:
    """Answers take 0.1 s. ``abc`` thinks for 0.8 s, ``xy`` starts at 0.4 s and does not think.

    a: 0 to 0.1, x: 0.4 to 0.5, y: 0.5 to 0.6, b: 0.9 to 1.0, c: 1.8 to 1.9.
    """
    server = Server(0.1)
    replayed = run(server, talks((0.0, "abc", 0.8), (0.4, "xy", 0.0)), tmp_path)
    assert errors(replayed) == [None] * 5
    assert server.seen == ["a", "x", "y", "b", "c"]
    a, b, c, x, y = replayed.records
    assert x.due_ns - a.due_ns == 400 * MS
    for before, after, think_ns in ((a, b, 800 * MS), (b, c, 800 * MS), (x, y, 0)):
        # Due counts from when the process saw the end, a little after the kernel had it.
        assert 0 <= after.due_ns - done(before) - think_ns < LATE_NS
        assert 0 <= sent(after) - after.due_ns < LATE_NS
    assert 0 <= replayed.health.send_lag_max_ns < LATE_NS
    assert replayed.offered_rate is None


def test_the_cap_counts_turns_of_all_conversations(tmp_path: Path) -> None:
    """Six conversations of three turns, all at once, two at a time."""
    server = Server(0.03)
    made = talks(*[(0.0, letters, 0.0) for letters in ("abc", "def", "ghi")] * 2, max_concurrency=2)
    replayed = run(server, made, tmp_path)
    assert errors(replayed) == [None] * 18
    assert server.most == 2
    assert replayed.max_concurrency == 2


def test_at_the_cap_a_turn_waits_in_arrival_order(tmp_path: Path) -> None:
    """One at a time, 0.7 s each: a is due at 0, x at 0.1 s; b at 0.7 s, when a has its answer.

    x came before b and goes first: a 0 to 0.7, x to 1.4, b to 2.1. What the cap held back says
    nothing about the client, but is in the time from due to sent.
    """
    server = Server(0.7)
    replayed = run(server, talks((0.0, "ab", 0.0), (0.1, "x", 0.0), max_concurrency=1), tmp_path)
    assert server.seen == ["a", "x", "b"]
    a, b, x = replayed.records
    assert 0 <= b.due_ns - done(a) < LATE_NS
    assert sent(b) - b.due_ns > 690 * MS
    assert sent(x) - x.due_ns > 590 * MS
    assert replayed.health.send_lag_max_ns < LATE_NS


def test_thinking_is_no_stall(tmp_path: Path) -> None:
    """Nothing is open for 1.2 s where 0.4 s of silence would be a stall."""
    replayed = run(Server(), talks((0.0, "ab", 1.2)), tmp_path, stall_timeout=0.4)
    assert errors(replayed) == [None, None]


def test_a_turn_needs_no_connection_of_its_conversation(tmp_path: Path) -> None:
    """The server closes after each answer: the next turn has a fresh connection, and no retry."""

    def once(client: Client) -> None:
        if client.request() is not None:
            client.send(answer(3).replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))

    replayed = run(once, talks((0.0, "abc", 0.0), (0.0, "xyz", 0.1)), tmp_path)
    assert errors(replayed) == [None] * 6
    assert replayed.health.reconnects == 0


def test_many_conversations_keep_to_the_rules(truthd: Any, tmp_path: Path) -> None:
    """30 conversations of 4 turns, 8 at a time, 10 tokens of 5 ms each, thinking for 50 ms."""
    made = talks(*[(0.002 * i, "abcd", 0.05) for i in range(30)], max_concurrency=8, tokens=10)
    with truthd(0.02, 0.005) as server:
        server.get("/reset")
        replayed = replay(made, server.target, work=tmp_path, salt=None)
        truth = server.stats()
    assert set(errors(replayed)) == {None}
    assert (truth["nreq"], truth["ndone"], truth["naborted"]) == (120, 120, 0)
    assert truth["peak_active"] == 8
    records = replayed.records
    for request in made.requests:
        record = records[request.index]
        if request.prompt.after is not None:
            thought = record.due_ns - done(records[request.prompt.after])
            assert 50 * MS <= thought < 50 * MS + LATE_NS
        assert sent(record) >= record.due_ns
    in_order = sorted(records, key=lambda record: record.due_ns)
    assert [sent(record) for record in in_order] == sorted(sent(record) for record in records)
    assert replayed.health.send_lag_p99_ns < LATE_NS


# --- when an answer fails


def test_a_refused_turn_ends_its_conversation_alone(tmp_path: Path) -> None:
    """b is refused: c and d are not sent and say why, with the server's words; x and y go on."""
    server = Server(special={"b": refusal("the prompt is too long")})
    replayed = run(server, talks((0.0, "abcd", 0.0), (0.0, "xy", 0.1)), tmp_path)
    assert sorted(server.seen) == ["a", "b", "x", "y"]
    not_sent = "not sent: the answer to turn 2 failed: HTTP 400: the prompt is too long"
    assert errors(replayed) == [
        None,
        "HTTP 400: the prompt is too long",
        not_sent,
        not_sent,
        None,
        None,
    ]
    lost = replayed.records[2]
    assert (lost.sent_ns, lost.done_ns, lost.http_status, lost.output_tokens) == (None,) * 4
    assert lost.due_ns >= done(replayed.records[1])
    assert replayed.health.send_lag_max_ns < LATE_NS


def test_a_turn_that_is_cut_ends_its_conversation(tmp_path: Path) -> None:
    """At the cap too: the slot goes to the other conversation, and the replay ends."""
    server = Server(special={"a": None})
    made = talks((0.0, "abc", 0.0), (0.0, "xy", 0.0), max_concurrency=1)
    replayed = run(server, made, tmp_path)
    assert server.seen == ["a", "x", "y"]
    cut = "incomplete: 1 of 3 tokens (Connection reset by peer)"
    not_sent = f"not sent: the answer to turn 1 failed: {cut}"
    assert errors(replayed) == [cut, not_sent, not_sent, None, None]


def test_a_whole_answer_without_its_last_bytes_says_what_was_lost(tmp_path: Path) -> None:
    """All tokens and [DONE] came, then a reset: that answer counts, but nothing follows it."""

    def script(client: Client) -> None:
        if client.request() is not None:
            client.send(CHUNKED + chunk(event(1)) + chunk(event(2)) + chunk(event(3)) + chunk(DONE))
            time.sleep(0.05)
            client.reset()

    replayed = run(script, talks((0.0, "ab", 0.0)), tmp_path)
    assert errors(replayed) == [
        None,
        "not sent: the answer to turn 1 failed: Connection reset by peer",
    ]


def test_an_error_inside_a_stream_holds_nothing_back(tmp_path: Path) -> None:
    """The load process does not read streams: the next turn leaves, and is judged by itself."""
    wrong = CHUNKED + chunk(b'data: {"error": {"message": "oops"}}\n\n') + b"0\r\n\r\n"
    server = Server(special={"a": wrong})
    replayed = run(server, talks((0.0, "ab", 0.0)), tmp_path)
    assert server.seen == ["a", "b"]
    assert errors(replayed) == ["the server's error in the stream: oops", None]


def test_a_server_that_nobody_reaches_is_said_at_once() -> None:
    """Both first turns found no connection, so that nothing was sent: an error of the replay."""
    result = {
        "stalled": False,
        "errors": {"0": "connection failed: refused", "2": "connection failed: refused"},
        "unsent": {"1": 0, "3": 2},
    }
    made = talks((0.0, "ab", 0.0), (0.0, "xy", 0.0))
    with pytest.raises(ReplayError, match="all 2 requests failed to connect to h:1: "):
        _check(result, made, Target("h", 1, "m"), 60.0)


# --- warming up


def test_warm_up_does_not_wait_for_answers(tmp_path: Path) -> None:
    """Three turns of one conversation, 30 s apart: all at once, to have the load they want."""
    together = threading.Barrier(3, timeout=15)

    def script(client: Client) -> None:
        while client.request() is not None:
            together.wait()
            client.send(answer(3))

    with scripted(script) as server:
        warm_up(talks((0.0, "abc", 30.0)), server.target, work=tmp_path, salt=None)
        assert sorted(map(prompt_of, server.requests)) == ["a", "b", "c"]
