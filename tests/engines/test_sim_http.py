"""Requests read from bytes however they come, and connections that keep their order."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.engines.sim import connection as connection_module
from pytest_llmperf.engines.sim.connection import Connection
from pytest_llmperf.engines.sim.http11 import HttpError, HttpRequest, RequestParser

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

POST = b"POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
GET = b"GET /health HTTP/1.1\r\n\r\n"


def read(*pieces: bytes) -> list[tuple[str, str, bytes]]:
    """Feed the pieces one by one and return what came out."""
    parser = RequestParser()
    found = []
    for piece in pieces:
        parser.feed(piece)
        while (request := parser.next()) is not None:
            found.append((request.method, request.path, request.body))
    return found


def test_a_request_is_read_in_one_piece_or_byte_by_byte():
    """TCP may split anywhere: the query is cut off, the body has its length."""
    expected = [("POST", "/v1/completions", b"hello")]
    assert read(POST) == expected
    assert read(*(POST[n : n + 1] for n in range(len(POST)))) == expected


def test_requests_in_one_segment_are_all_read_in_order():
    """Pipelined requests, with and without a body, in chunks too."""
    expected = [("GET", "/health", b""), ("POST", "/c", b"hello"), ("GET", "/health", b"")]
    assert read(GET + CHUNKED + GET) == expected
    whole = GET + CHUNKED + GET
    assert all(read(whole[:n], whole[n:]) == expected for n in range(len(whole)))


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"G" * 70_000, 431),
    ],
)
def test_what_is_no_request_has_a_status(data: bytes, status: int):
    """Each kind of nonsense is refused with the status that names it."""
    parser = RequestParser()
    parser.feed(data)
    with pytest.raises(HttpError) as error:
        parser.next()
    assert error.value.status == status


def test_a_client_that_waits_for_the_go_ahead_is_told_once():
    """``Expect: 100-continue`` with the body still to come."""
    parser = RequestParser()
    parser.feed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert parser.next() is None
    assert [parser.wants_continue(), parser.wants_continue()] == [True, False]


class Echo:
    """Answers ``/now`` at once and everything else after a moment."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        self.lost = 0
        self.count = itertools.count(1)

    def handle(self, request: HttpRequest, connection: Connection) -> None:
        """Answer with the count of requests and the path."""
        body = f"{next(self.count)}{request.path}".encode()
        if request.path == "/now":
            connection.respond(200, body, "text/plain")
            return
        connection.on_lost = self.on_lost
        if request.path == "/never":
            return
        loop = asyncio.get_running_loop()
        loop.call_later(0.02, connection.respond, 200, body, "text/plain")

    def on_lost(self) -> None:
        """Count a client that went away."""
        self.lost += 1

    def log_access(self, peer: str, request: HttpRequest, status: int) -> None:
        """Expect good answers only."""
        assert status == 200


def serve(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]],
) -> tuple[bytes, Echo]:
    """Run ``talk`` against a server of connections; return what it returned."""

    async def run() -> tuple[bytes, Echo]:
        echo = Echo()
        scratch = memoryview(bytearray(1024))
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(echo, scratch), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            said = await asyncio.wait_for(talk(reader, writer), 10)
        finally:
            writer.close()
            await writer.wait_closed()
            server.close()
            for _ in range(1000):  # until the server has noticed too
                if not echo.connections:
                    break
                await asyncio.sleep(0.005)
        return said, echo

    return asyncio.run(run())


def test_answers_keep_the_order_of_pipelined_requests():
    """A request that would be answered at once waits for the slower one before it."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        slow, now = b"GET /slow HTTP/1.1\r\n\r\n", b"GET /now HTTP/1.1\r\n"
        writer.write(slow + now + b"\r\n" + slow + now + b"Connection: close\r\n\r\n")
        return await reader.read()

    said, _ = serve(talk)
    bodies = [part.split(b"\r\n\r\n")[1][:6] for part in said.split(b"HTTP/1.1 200 OK")[1:]]
    assert bodies == [b"1/slow", b"2/now", b"3/slow", b"4/now"]


def test_nonsense_is_answered_and_the_connection_closed():
    """As uvicorn does, with a status instead of silence."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"nonsense\r\n\r\n")
        return await reader.read()

    said, _ = serve(talk)
    assert said.startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_an_idle_connection_is_closed_after_a_response(monkeypatch: pytest.MonkeyPatch):
    """After the keep-alive time (uvicorn's 5 s, here 50 ms) the server closes."""
    monkeypatch.setattr(connection_module, "KEEP_ALIVE_S", 0.05)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET /now HTTP/1.1\r\n\r\n")
        return await reader.read()

    said, _ = serve(talk)
    assert said.endswith(b"1/now")


def test_a_client_that_goes_away_is_noticed():
    """The request that it waited for is given up, once."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET /never HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.05)
        return b""

    _, echo = serve(talk)
    assert echo.lost == 1
