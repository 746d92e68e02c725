from __future__ import annotations

import pytest

from pytest_llmperf.replay.answer import Answer
from tests.replay.scripted import CHUNKED, DONE, HEAD, answer, chunk, event


def verdict(
    data: bytes, *, lost: str | None = None, asked: int = 3, all_of_them: bool = True
) -> tuple[Answer, str | None]:
    """Feed one read at 5 ns and ask for what is wrong."""
    read = Answer()
    if data:
        read.feed(data, [len(data)], [5])
    return read, read.verdict(lost=lost, asked=asked, all_of_them=all_of_them)


def status(line: bytes, body: bytes, kind: bytes = b"application/json") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (
        line, kind, len(body), body,
    )  # fmt: skip


def test_a_whole_answer_has_no_error() -> None:
    """All tokens, [DONE] and the last chunk."""
    read, error = verdict(answer(3))
    assert error is None
    assert read.ended
    assert list(read.output.chunk_tokens) == [1, 1, 1]


def test_fewer_tokens_than_asked_are_incomplete_under_ignore_eos() -> None:
    """A stream that ends in good order but early; without ignore_eos the model may stop."""
    assert verdict(answer(12), asked=128)[1] == "incomplete: 12 of 128 tokens"
    assert verdict(answer(12), asked=128, all_of_them=False)[1] is None


def test_chunks_alone_do_not_prove_that_tokens_are_missing() -> None:
    """Where the server counts nothing and says it reached the length, it is believed."""
    finish = b'data: {"choices": [{"text": "x", "finish_reason": "length"}]}\n\n'
    data = CHUNKED + chunk(event(None)) + chunk(finish) + chunk(DONE) + b"0\r\n\r\n"
    assert verdict(data, asked=3)[1] is None
    short = CHUNKED + chunk(event(None)) + chunk(DONE) + b"0\r\n\r\n"
    assert verdict(short, asked=3)[1] == "incomplete: 1 of 3 tokens"


def test_a_stream_that_was_cut_is_incomplete() -> None:
    """No last chunk, no [DONE]: whoever cut it, the record says how far it came."""
    data = CHUNKED + chunk(event(1)) + chunk(event(2))
    assert verdict(data)[1] == "incomplete: 2 of 3 tokens (the stream has no end)"
    lost = "Connection reset by peer"
    read, error = verdict(data, lost=lost)
    assert error == "incomplete: 2 of 3 tokens (Connection reset by peer)"
    assert not read.ended


def test_a_stream_that_ends_without_saying_so_is_incomplete() -> None:
    """HTTP's end is no proof: neither a finish reason nor [DONE] came."""
    data = CHUNKED + chunk(event(1)) + b"0\r\n\r\n"
    error = verdict(data, all_of_them=False)[1]
    assert error == "incomplete: 1 of 3 tokens, with neither a finish reason nor [DONE]"
    whole = CHUNKED + chunk(event(3)) + b"0\r\n\r\n"
    assert verdict(whole)[1] is None


def test_after_done_the_close_is_no_matter() -> None:
    """[DONE] is the stream's end, however the connection then goes."""
    data = CHUNKED + chunk(event(3)) + chunk(DONE)
    assert verdict(data, lost="Connection reset by peer")[1] is None


def test_a_body_that_the_close_ends_is_whole_if_the_close_was_in_order() -> None:
    """Without length and chunks, a reset is a cut and an orderly end is an end."""
    finish = b'data: {"choices": [{"text": "x", "finish_reason": "stop"}]}\n\n'
    data = HEAD + b"\r\n" + event(None) + finish
    assert verdict(data, asked=2)[1] is None
    error = verdict(data, asked=2, lost="Connection reset by peer")[1]
    assert error == "incomplete: 2 of 2 tokens (Connection reset by peer)"


def test_a_stream_without_a_token_is_an_error() -> None:
    """An answer in good order that says nothing has no TTFT, and none is made up."""
    data = CHUNKED + chunk(DONE) + b"0\r\n\r\n"
    error = verdict(data, all_of_them=False)[1]
    assert error == "no output: the stream ended without a token"


def test_the_last_event_may_lack_its_blank_line() -> None:
    """A sloppy server's last event counts, once the body is whole."""
    data = CHUNKED + chunk(event(1)) + chunk(event(3).rstrip()) + b"0\r\n\r\n"
    read, error = verdict(data)
    assert error is None
    assert list(read.output.chunk_tokens) == [1, 2]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            status(b"429 Too Many Requests", b'{"error": {"message": "queue full"}}'),
            "HTTP 429: queue full",
        ),
        (status(b"503 Service Unavailable", b"", b"text/plain"), "HTTP 503"),
        (
            status(b"502 Bad Gateway", b"<h1>Bad\n\nGateway</h1>", b"text/html"),
            "HTTP 502: <h1>Bad Gateway</h1>",
        ),
        (
            status(b"200 OK", b'{"choices": [{"text": "hi"}]}'),
            'not a stream but content-type application/json: {"choices":[{"text":"hi"}]}',
        ),
        (
            HEAD + b"content-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x8b",
            "content-encoding gzip, though only identity was accepted",
        ),
    ],
)
def test_an_answer_that_is_no_stream_says_what_it_is(data: bytes, expected: str) -> None:
    """The status and the server's own words."""
    read, error = verdict(data)
    assert error == expected
    assert list(read.output.chunk_ns) == []


def test_no_answer_says_what_became_of_the_connection() -> None:
    """Nothing came: the connection's fate is the error."""
    assert verdict(b"", lost="Connection refused")[1] == "Connection refused"
    assert verdict(b"")[1] == "no answer"


def test_another_protocol_is_said() -> None:
    """An answer that is no HTTP."""
    error = verdict(b"SSH-2.0-OpenSSH\r\n", lost="closed")[1]
    assert error == "the answer is not HTTP/1.1: b'SSH-2.0-OpenSSH\\r\\n'"


def test_broken_chunks_are_said() -> None:
    """What came before still counts."""
    read, error = verdict(CHUNKED + chunk(event(1)) + b"xyz\r\n")
    assert error == "a chunk's size is b'xyz'"
    assert list(read.output.chunk_tokens) == [1]
