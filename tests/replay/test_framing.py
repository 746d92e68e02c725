from __future__ import annotations

import pytest

from pytest_llmperf.replay.framing import Framing, HeadError, read_head


@pytest.mark.parametrize(
    ("fields", "framing", "length", "keeps_open"),
    [
        (b"transfer-encoding: chunked\r\n", Framing.CHUNKED, 0, True),
        (b"Transfer-Encoding: Chunked\r\nConnection: close\r\n", Framing.CHUNKED, 0, False),
        (b"content-length: 12\r\n", Framing.LENGTH, 12, True),
        (b"content-length: 12\r\ntransfer-encoding: chunked\r\n", Framing.CHUNKED, 0, True),
        (b"content-type: text/plain\r\n", Framing.CLOSE, 0, False),
    ],
)
def test_the_head_says_how_the_body_ends(
    fields: bytes,
    framing: Framing,
    length: int,
    keeps_open: bool,  # noqa: FBT001  # pytest passes it by name
) -> None:
    """Chunked wins over a length; without either, the connection's end is the body's."""
    data = b"HTTP/1.1 200 OK\r\n" + fields + b"\r\nbody"
    head = read_head(data)
    assert head is not None
    assert (head.status, head.framing, head.length) == (200, framing, length)
    assert head.keeps_open is keeps_open
    assert data[head.size :] == b"body"


def test_an_incomplete_head_is_waited_for() -> None:
    """Every proper prefix of a head is incomplete and no error."""
    data = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"
    assert [read_head(data[:cut]) for cut in range(len(data))] == [None] * len(data)
    head = read_head(data)
    assert head is not None
    assert head.status == 429


def test_interim_responses_are_skipped() -> None:
    """A 100 Continue before the answer is not the answer."""
    data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    head = read_head(data)
    assert head is not None
    assert (head.status, data[head.size :]) == (200, b"ok")
    assert read_head(b"HTTP/1.1 100 Continue\r\n\r\n") is None


def test_no_body_follows_204() -> None:
    """Some statuses have no body, whatever the head says about its length."""
    head = read_head(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert head is not None
    assert (head.framing, head.length) == (Framing.LENGTH, 0)


def test_http_1_0_closes() -> None:
    """HTTP/1.0 closes its connection unless it says otherwise."""
    head = read_head(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok")
    assert head is not None
    assert head.keeps_open is False


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
    ],
)
def test_what_is_no_http_is_an_error(data: bytes) -> None:
    """Another protocol on the port is said, not waited for."""
    with pytest.raises(HeadError, match="the answer"):
        read_head(data)
