"""Reading HTTP/1.1 requests from bytes as they come, however they are split. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 64 * 1024 * 1024


class HttpError(Exception):
    """A request that cannot be read; the connection ends with this status."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. Header names are lower case; ``path`` is without the query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def keep_alive(self) -> bool:
        """Whether the client wants the connection to stay open."""
        return "close" not in self.headers.get("connection", "").lower()


class RequestParser:
    """Takes bytes and gives requests. Bytes beyond a request wait for the next call."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: HttpRequest | None = None
        self._continue = False

    def feed(self, data: bytes | memoryview) -> None:
        """Take what has come."""
        self._buffer += data

    def next(self) -> HttpRequest | None:
        """Return the next request that is complete; raise HttpError for what is none."""
        if self._head is None:
            self._head = self._take_head()
        if self._head is None:
            return None
        head = self._head
        body = self._take_body(head.headers)
        if body is None:
            return None
        self._head = None
        self._continue = False
        return HttpRequest(head.method, head.path, head.headers, body)

    def wants_continue(self) -> bool:
        """Whether the client waits for ``100 Continue`` before it sends its body; true once."""
        wanted, self._continue = self._continue, False
        return wanted

    def _take_head(self) -> HttpRequest | None:
        while self._buffer.startswith(b"\r\n"):
            del self._buffer[:2]
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise HttpError(431, "Request Header Fields Too Large")
            return None
        head = _read_head(self._buffer[:end].decode("latin-1"))
        del self._buffer[: end + 4]
        self._continue = head.headers.get("expect", "").lower() == "100-continue"
        return head

    def _take_body(self, headers: Mapping[str, str]) -> bytes | None:
        coding = headers.get("transfer-encoding")
        length = headers.get("content-length", "0")
        if coding is not None:
            if coding.lower() != "chunked" or "content-length" in headers:
                raise HttpError(400, "Invalid HTTP request received.")
            return self._take_chunks()
        if not (length.isascii() and length.isdecimal()):
            raise HttpError(400, "Invalid HTTP request received.")
        size = int(length)
        if size > MAX_BODY_BYTES:
            raise HttpError(413, "Request Entity Too Large")
        if len(self._buffer) < size:
            return None
        body = bytes(self._buffer[:size])
        del self._buffer[:size]
        return body

    def _take_chunks(self) -> bytes | None:
        body = bytearray()
        position = 0
        while True:
            end = self._buffer.find(b"\r\n", position)
            if end < 0:
                return None
            try:
                size = int(bytes(self._buffer[position:end]).split(b";")[0], 16)
            except ValueError:
                raise HttpError(400, "Invalid HTTP request received.") from None
            if size < 0 or len(body) + size > MAX_BODY_BYTES:
                raise HttpError(413, "Request Entity Too Large")
            if size == 0:
                return self._end_chunks(body, end)
            position = end + 2 + size + 2
            if len(self._buffer) < position:
                return None
            body += self._buffer[end + 2 : position - 2]

    def _end_chunks(self, body: bytearray, end: int) -> bytes | None:
        """Skip the trailers, which end with an empty line that may be the only one."""
        stop = self._buffer.find(b"\r\n\r\n", end)
        if stop < 0:
            return None
        del self._buffer[: stop + 4]
        return bytes(body)


def _read_head(text: str) -> HttpRequest:
    first, *lines = text.split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/"):  # noqa: PLR2004 - method, target, version
        raise HttpError(400, "Invalid HTTP request received.")
    if words[2] != "HTTP/1.1":
        raise HttpError(505, "HTTP Version Not Supported")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise HttpError(400, "Invalid HTTP request received.")
        headers[name.lower()] = value.strip()
    return HttpRequest(words[0], words[1].partition("?")[0], headers)
