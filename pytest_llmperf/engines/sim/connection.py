"""One TCP connection: requests in, responses out, in order, kept alive."""

from __future__ import annotations

import asyncio
import socket
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from pytest_llmperf.engines.sim.http11 import HttpError, HttpRequest, RequestParser

if TYPE_CHECKING:
    from collections.abc import Callable

KEEP_ALIVE_S = 5.0
"""How long an idle connection stays open after a response: uvicorn's default."""
LAST_CHUNK = b"0\r\n\r\n"


class Application(Protocol):
    """Answers each request through the connection, at once or later."""

    connections: set[Connection]

    def handle(self, request: HttpRequest, connection: Connection) -> None:
        """Answer ``request`` by ``respond``, or by ``start_stream`` and ``send``."""

    def log_access(self, peer: str, request: HttpRequest, status: int) -> None:
        """Log a request whose response begins."""


class Connection(asyncio.BufferedProtocol):
    """A connection's protocol. ``scratch`` is a buffer that all connections share.

    Sharing is safe, since what is read is taken out before the loop reads another socket, and
    asyncio's own 256 KiB a read would be the largest cost here.
    """

    def __init__(self, application: Application, scratch: memoryview) -> None:
        self._application = application
        self._scratch = scratch
        self._parser = RequestParser()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._request: HttpRequest | None = None
        self._taking = False
        self._timeout: asyncio.TimerHandle | None = None
        self._peer = ""
        self.on_lost: Callable[[], None] | None = None
        """Called when the client goes away before its response is complete."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register with the application, which closes what is open when it stops."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a stream transport is needed, not {transport!r}")
        self._transport = transport
        # asyncio sets this only on sockets made with the protocol's number, which a listening
        # socket bound by hand is not: Nagle would hold a first token back for 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = transport.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if peer else ""
        self._application.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Give up the request under way."""
        self._application.connections.discard(self)
        self._transport = None
        self._unset_timeout()
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the shared buffer."""
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read and answer the requests in it."""
        self._unset_timeout()
        self._parser.feed(self._scratch[:nbytes])
        self._take()

    def close(self) -> None:
        """Close once everything written has been sent."""
        if self._transport is not None:
            self._transport.close()

    def respond(
        self, status: int, body: bytes, content_type: str | None, extra: tuple[str, ...] = ()
    ) -> None:
        """Send a complete response."""
        length = (f"content-length: {len(body)}",)
        kind = (f"content-type: {content_type}",) if content_type else ()
        self._write(self._head(status, *length, *kind, *extra) + body)
        self._finish()

    def start_stream(self) -> None:
        """Send the head of a stream of events; ``send`` brings the rest, already in chunks."""
        self._write(
            self._head(
                200, "content-type: text/event-stream; charset=utf-8", "transfer-encoding: chunked"
            )
        )

    def send(self, data: bytes, *, last: bool) -> None:
        """Send a part of a stream, in one write; the ``last`` frees the connection."""
        self._write(data)
        if last:
            self._finish()

    def _take(self) -> None:
        """Handle complete requests one after another. Not reentrant: a response may end in it."""
        if self._taking:
            return
        self._taking = True
        try:
            while self._request is None and not self._closing:
                self._request = self._parser.next()
                if self._request is None:
                    if self._parser.wants_continue():
                        self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    break
                self._unset_timeout()
                self._application.handle(self._request, self)
        except HttpError as error:
            self._refuse(error)
        finally:
            self._taking = False

    def _refuse(self, error: HttpError) -> None:
        body = error.reason.encode()
        head = self._head(
            error.status,
            f"content-length: {len(body)}",
            "content-type: text/plain; charset=utf-8",
            "connection: close",
        )
        self._write(head + body)
        self.close()

    def _finish(self) -> None:
        self.on_lost = None
        request, self._request = self._request, None
        if request is not None and not request.keep_alive:
            self.close()
            return
        self._unset_timeout()
        self._timeout = self._loop.call_later(KEEP_ALIVE_S, self.close)
        self._take()

    def _head(self, status: int, *fields: str) -> bytes:
        if self._request is not None:
            self._application.log_access(self._peer, self._request, status)
            if not self._request.keep_alive:
                fields = (*fields, "connection: close")
        date = time.strftime("date: %a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
        return "\r\n".join((first, date, "server: pytest-llmperf-sim", *fields, "", "")).encode()

    @property
    def _closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _unset_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
