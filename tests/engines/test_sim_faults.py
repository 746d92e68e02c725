"""Faults on demand: their small language, whom they meet, and what a client sees of them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmperf.engines.sim import ENGINE
from pytest_llmperf.engines.sim.faults import (
    ALWAYS,
    Fault,
    Faults,
    Treatment,
    When,
    parse_fault,
)
from tests.engines.inprocess import Client, document, served, status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("crash", Fault("crash", when=When(1, 1))),
        ("crash@20", Fault("crash", when=When(20, 20))),
        ("hang@2.5s", Fault("hang", when=When(seconds=(2.5, float("inf"))))),
        ("stall@0s", Fault("stall", when=When(seconds=(0.0, float("inf"))))),
        ("error", Fault("error", 500)),
        ("error=429@1/10", Fault("error", 429, When(every=10))),
        ("cut=5@1/50", Fault("cut", 5, When(every=50))),
        ("cut=0", Fault("cut", 0)),
        ("event@3", Fault("event", 1, When(3, 3))),
        ("repeat@3+", Fault("repeat", when=When(3))),
        ("empty", Fault("empty")),
        ("other=7", Fault("other", 7)),
        ("throttle=1.3@60s-90s", Fault("throttle", 1.3, When(seconds=(60.0, 90.0)))),
        ("slow-chat=2@10+", Fault("slow-chat", 2, When(10))),
        ("stuck-start", Fault("stuck-start")),
        (" ignore-sigterm ", Fault("ignore-sigterm")),
    ],
)
def test_a_fault_is_read(text: str, fault: Fault):
    """KIND[=VALUE][@WHEN], each part with its default."""
    assert parse_fault(text) == fault


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "KIND is one of crash, hang, stall"),
        ("crush@2", r"got 'crush@2'; KIND is one of"),
        ("crash@1/2", r"crash happens once: WHEN is N .* \(in 'crash@1/2'\)"),
        ("crash@2+", "crash happens once"),
        ("hang@1s-2s", "hang happens once"),
        ("crash=3", "crash takes no value, got 3"),
        ("error=200", "a status of HTTP from 400 to 599 is needed, got 200"),
        ("error=499", "a status of HTTP from 400 to 599 is needed, got 499"),
        ("cut=1.5", "a whole number of at least 0 is needed, got 1.5"),
        ("cut=x", "VALUE is a number of at least 0, got 'x'"),
        ("throttle", r"a factor above 0 is needed, got 0 \(throttle=1.5\)"),
        ("throttle=2@5", "is for steps, not for one request"),
        ("throttle=2@1/5", "is for steps, not for one request"),
        ("stuck-start@3", "takes no WHEN"),
        ("empty@0", "requests are counted from 1, got 0"),
        ("empty@5s-5s", "a window ends after it begins, got 5s-5s"),
        ("empty@soon", "WHEN is N, N.*, 1/N, Ss or Ss-Es, got 'soon'"),
    ],
)
def test_what_is_no_fault_says_the_rule_and_the_choices(text: str, words: str):
    """With the value that was given."""
    with pytest.raises(ValueError, match=words):
        parse_fault(text)


@pytest.mark.parametrize(
    ("when", "met"),
    [
        (ALWAYS, [1, 2, 3, 4, 5, 6]),
        (When(3, 3), [3]),
        (When(4), [4, 5, 6]),
        (When(every=3), [3, 6]),
        (When(seconds=(2.0, 4.0)), [2, 3]),
    ],
)
def test_whom_a_fault_meets(when: When, met: list[int]):
    """Request n comes at n seconds: by number, by share counted off, by time."""
    assert [number for number in range(1, 7) if when.meets(number, float(number))] == met


def faults(*texts: str) -> Faults:
    return Faults.of(parse_fault(text) for text in texts)


def test_a_request_is_treated_by_all_faults_that_meet_it():
    """Of two of one kind the first that was given counts."""
    some = faults("error=503@1/2", "error=429", "repeat@2", "slow-chat=1.5", "slow-completions=3")
    assert some.treatment(1, 0.0, chat=True) == Treatment(status=429, factor=1.5)
    assert some.treatment(2, 0.0, chat=False) == Treatment(status=503, answer="repeat", factor=3.0)


def test_an_end_comes_with_its_request_or_with_the_clock():
    """``crash@2`` is request 2's treatment; ``hang@9s`` is nobody's, it is the clock's."""
    some = faults("crash@2", "hang@9s")
    ends = [some.treatment(number, 10.0, chat=False).end for number in (1, 2, 3)]
    assert (ends, some.timed_ends()) == ([None, "crash", None], ((9.0, "hang"),))


def test_a_throttle_is_on_from_its_time_or_its_request_on():
    """Factors of throttles that overlap multiply."""
    some = faults("throttle=2@10s-20s", "throttle=1.5@5+")
    found = [some.throttle(*at) for at in ((0, 0.0), (1, 10.0), (5, 9.0), (5, 19.0), (9, 20.0))]
    assert found == [1.0, 2.0, 1.5, 3.0, 1.5]


def test_faults_of_the_process_are_told_to_the_server():
    """Which asks before it starts, and when it is told to stop."""

    def told(some: Faults) -> tuple[bool, bool, bool]:
        return some.never_starts, some.dies_at_start, some.ignores_sigterm

    assert told(faults()) == (False, False, False)
    assert told(faults("stuck-start", "start-oom", "ignore-sigterm")) == (True, True, True)
    assert told(faults("start-oom")) == (False, True, False)


def test_a_crash_ends_the_process_as_a_cuda_error_would():
    """Status 1; the log's reader finds the cause and not what followed of it."""
    code = (
        "from pytest_llmperf.engines.sim import injection, log\n"
        "injection.crash(log.Log())\nprint('alive')"
    )
    ended = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 1
    assert "alive" not in ended.stdout
    assert "EngineDeadError" in ended.stdout
    assert (ENGINE.failure(ended.stdout) or "").startswith("torch.AcceleratorError: CUDA error")


def serve(*texts: str, talk: Callable[[Client], Awaitable[Any]]) -> Any:
    """Return what ``talk`` returns against a server with these faults."""
    return served(*(word for text in texts for word in ("--sim-fault", text)), talk=talk)


def test_every_second_request_is_answered_with_an_error():
    """With the status that was asked for and a body of vLLM's shape."""

    async def talk(client: Client) -> list[bytes]:
        return [await client.ask() for _ in range(4)]

    answers = serve("error=429@1/2", talk=talk)
    assert [status(answer) for answer in answers] == [200, 429, 200, 429]
    error = document(answers[1])["error"]
    assert (error["code"], error["type"]) == (429, "TooManyRequests")


def test_a_cut_stream_has_its_tokens_and_no_end():
    """2 of 4 tokens come; the body's last chunk does not; the request counts as aborted."""

    async def talk(client: Client) -> tuple[bytes, int]:
        answer = await client.ask(stream=True)
        for _ in range(100):
            if client.metrics.finished_by_reason["abort"]:
                break
            await asyncio.sleep(0.005)
        return answer, client.metrics.finished_by_reason["abort"]

    answer, aborted = serve("cut=2", talk=talk)
    assert (status(answer), answer.count(b"data: "), aborted) == (200, 2, 1)
    assert b"[DONE]" not in answer
    assert not answer.endswith(b"0\r\n\r\n")


def test_a_stream_can_be_cut_after_its_head_and_at_the_latest_before_its_end():
    """0 tokens: the head alone. 9 of 4: all four, without the end."""

    async def talk(client: Client) -> bytes:
        return await client.ask(stream=True)

    head, most = serve("cut=0", talk=talk), serve("cut=9", talk=talk)
    assert head.endswith(b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n")
    assert (most.count(b"data: "), most.count(b'"length"')) == (4, 0)


def test_a_whole_answer_can_be_cut_too():
    """Then nothing comes at all."""

    async def talk(client: Client) -> bytes:
        return await client.ask()

    assert serve("cut", talk=talk) == b""


def test_an_error_can_come_inside_a_stream():
    """As when vLLM's engine fails under a request: status 200, a token, an error, the end."""

    async def talk(client: Client) -> tuple[bytes, bytes]:
        return await client.ask(stream=True), await client.ask()

    stream, whole = serve("event=1", talk=talk)
    events = [part.partition(b"\r\n")[0] for part in stream.split(b"data: ")[1:]]
    assert (status(stream), len(events), events[2].strip()) == (200, 3, b"[DONE]")
    assert json.loads(events[1])["error"]["code"] == 500
    assert stream.endswith(b"0\r\n\r\n")
    assert (status(whole), b'"error"' in whole) == (500, True)


def test_wrong_answers_have_the_usual_shape():
    """One token over and over, no text, another text: each with its 4 tokens and status 200."""

    async def talk(client: Client) -> list[bytes]:
        return [await client.ask() for _ in range(5)]

    answers = serve("repeat@2", "empty@3", "other@4", talk=talk)
    usual, repeat, empty, other, again = (
        document(answer)["choices"][0]["text"] for answer in answers
    )
    assert (usual == again, repeat, empty) == (True, " the the the the", "")
    assert len(other) == len(usual) == 16
    assert other != usual
    assert all(b'"completion_tokens":4' in answer for answer in answers)


def test_a_stalled_engine_gives_no_tokens_and_its_server_still_answers():
    """/health and /metrics are another process in vLLM; the stream has a head and no event."""

    async def talk(client: Client) -> tuple[bytes, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        body = b'{"prompt":[1],"max_tokens":4,"stream":true}'
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)
        writer.close()
        return head, await client.ask("/ping")

    head, health = serve("stall", talk=talk)
    assert (status(head), status(health)) == (200, 200)


def test_a_hanging_server_says_nothing_to_anybody():
    """From the second request on: not to it, and not to a probe of its health."""

    async def talk(client: Client) -> list[Any]:
        said: list[Any] = [status(await client.ask())]
        for path in ("/v1/completions", "/ping"):
            try:
                said.append(await asyncio.wait_for(client.ask(path), 0.05))
            except TimeoutError:
                said.append(None)
        return said

    assert serve("hang@2", talk=talk) == [200, None, None]


def test_an_end_can_come_with_the_clock():
    """``hang@0.05s``: answered before, not after."""

    async def talk(client: Client) -> list[Any]:
        said: list[Any] = [status(await client.ask("/ping"))]
        await asyncio.sleep(0.1)
        try:
            said.append(await asyncio.wait_for(client.ask("/ping"), 0.05))
        except TimeoutError:
            said.append(None)
        return said

    assert serve("hang@0.05s", talk=talk) == [200, None]
