"""The head of an HTTP/1.1 response, and how its body ends (RFC 9112, section 6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAD_END = b"\r\n\r\n"
CHUNKED_END = b"\r\n0\r\n\r\n"
"""The last bytes of a chunked response: the end of the chunk (or head) before, then none."""

MAX_HEAD = 65536
INTERIM = range(100, 200)
NO_BODY = (204, 304)


class Framing(Enum):
    """What marks the end of a body."""

    CHUNKED = "chunked"
    LENGTH = "content-length"
    CLOSE = "close"


class HeadError(ValueError):
    """What arrived is no HTTP/1.x response."""


@dataclass(frozen=True, slots=True)
class Head:
    """A parsed head. ``size``: its bytes with the blank line, interim responses included."""

    status: int
    framing: Framing
    length: int
    size: int
    keeps_open: bool
    headers: Mapping[str, str]


def read_head(data: bytes) -> Head | None:
    """Parse the final response's head at the start of ``data``; None while it is incomplete.

    Interim responses (1xx) before it are skipped. Raise HeadError for what is no HTTP.
    """
    start = 0
    while True:
        end = data.find(HEAD_END, start)
        if end < 0:
            if len(data) - start > MAX_HEAD or not b"HTTP/1.".startswith(data[start : start + 7]):
                raise HeadError(f"the answer is not HTTP/1.1: {data[start : start + 60]!r}")
            return None
        head = _parse(data[start:end], end + len(HEAD_END))
        if head.status not in INTERIM:
            return head
        start = head.size


def _parse(head: bytes, size: int) -> Head:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not code.isdigit():
        raise HeadError(f"the answer is not HTTP/1.1: {first[:60]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    framing, length = _framing(int(code), headers)
    connection = headers.get("connection", "" if version == "HTTP/1.1" else "close").lower()
    keeps_open = framing is not Framing.CLOSE and "close" not in connection
    return Head(int(code), framing, length, size, keeps_open, headers)


def _framing(status: int, headers: Mapping[str, str]) -> tuple[Framing, int]:
    if status in NO_BODY or status in INTERIM:
        return Framing.LENGTH, 0
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return Framing.CHUNKED, 0
    length = headers.get("content-length")
    if length is None:
        return Framing.CLOSE, 0
    if not length.isdigit():
        raise HeadError(f"the answer's content-length is {length[:60]!r}")
    return Framing.LENGTH, int(length)
