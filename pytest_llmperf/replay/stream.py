"""From the bytes of a response to its events, each with the time of the read that completed it.

Incremental: a response may be fed in pieces cut anywhere. HTTP framing as RFC 9112 says,
server-sent events as the WHATWG standard says.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from pytest_llmperf.replay.framing import Framing, Head, read_head

if TYPE_CHECKING:
    from collections.abc import Iterable

HEX = re.compile(rb"[0-9A-Fa-f]+")
LINE_END = re.compile(rb"\r\n|\n|\r")


class Body:
    """Strips a response's head and framing. ``head`` is None until it is complete.

    ``complete`` tells whether the framing's end was seen (always False for a body that only
    the connection's end delimits: whoever read the connection knows); ``broken`` how the
    framing is broken, after which nothing more is read.
    """

    def __init__(self) -> None:
        self.head: Head | None = None
        self.complete = False
        self.broken: str | None = None
        self.rest = b""
        self._left = 0

    def feed(self, data: bytes) -> tuple[list[bytes], list[int]]:
        """Take more bytes; return pieces of the body and where in ``rest + data`` each starts.

        ``rest`` is what an earlier call could not use yet, and after this call what is kept
        for the next.
        """
        raw = self.rest + data
        start = 0
        if self.head is None:
            self.head = read_head(raw)
            if self.head is None:
                self.rest = raw
                return [], []
            start = self.head.size
            self._left = self.head.length
            self.complete = self.head.framing is Framing.LENGTH and not self._left
        if self.head.framing is Framing.CHUNKED:
            return self._chunks(raw, start)
        self.rest = b""
        piece = raw[start:]
        if self.head.framing is Framing.LENGTH:
            piece = piece[: self._left]
            self._left -= len(piece)
            self.complete = not self._left
        return ([piece], [start]) if piece else ([], [])

    def _chunks(self, raw: bytes, at: int) -> tuple[list[bytes], list[int]]:
        pieces: list[bytes] = []
        starts: list[int] = []
        while not (self.complete or self.broken):
            line = raw.find(b"\r\n", at)
            if line < 0:
                break
            size = _size(raw[at:line])
            if size is None:
                self.broken = f"a chunk's size is {raw[at : min(line, at + 40)]!r}"
                break
            start = line + 2
            end = start + size
            if not size:
                self.complete = _trailer_ended(raw, line)
                break
            if len(raw) < end + 2:
                break
            if raw[end : end + 2] != b"\r\n":
                self.broken = f"a chunk of {size} bytes does not end where it should"
                break
            pieces.append(raw[start:end])
            starts.append(start)
            at = end + 2
        self.rest = raw[at:]
        return pieces, starts


def _size(line: bytes) -> int | None:
    digits = line.partition(b";")[0].strip()
    return int(digits, 16) if HEX.fullmatch(digits) else None


def _trailer_ended(raw: bytes, line: int) -> bool:
    """Whether the trailer section after the last chunk's line at ``line`` is complete."""
    return raw.startswith(b"\r\n", line + 2) or raw.find(b"\r\n\r\n", line + 2) >= 0


class Events:
    """Splits a body into events. ``rest`` holds what no blank line has ended yet."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, text: bytes) -> tuple[list[bytes], list[int]]:
        """Take more of a body; return its whole events and where in ``rest + text`` they end."""
        text = self.rest + text
        if b"\r" in text:
            return self._by_line(text)
        events = text.split(b"\n\n")
        self.rest = events.pop()
        ends: list[int] = []
        at = 0
        for event in events:
            at += len(event) + 2
            ends.append(at)
        return events, ends

    def _by_line(self, text: bytes) -> tuple[list[bytes], list[int]]:
        """Split where lines end with CR LF, or CR, or in any mixture."""
        events: list[bytes] = []
        ends: list[int] = []
        lines: list[bytes] = []
        at = used = 0
        for mark in LINE_END.finditer(text):
            if mark.group() == b"\r" and mark.end() == len(text):
                break  # its LF may be on the way
            line = text[at : mark.start()]
            at = mark.end()
            if line:
                lines.append(line)
                continue
            events.append(b"\n".join(lines))
            ends.append(at)
            lines.clear()
            used = at
        self.rest = text[used:]
        return events, ends


def payload(event: bytes) -> bytes | None:
    """Return an event's data, its lines joined; None where it has none (comment, keep-alive)."""
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    lines = [line[5:] for line in event.split(b"\n") if line.startswith(b"data:")]
    if not lines:
        return None
    return b"\n".join(line[1:] if line.startswith(b" ") else line for line in lines)


class Stream:
    """A response being taken apart: bytes and times in, event data and times out."""

    def __init__(self) -> None:
        self.body = Body()
        self._events = Events()
        self._ends: list[int] = []
        self._times: list[int] = []

    @property
    def remainder(self) -> bytes:
        """What follows the last whole event; of an answer that is no event stream, all of it."""
        return self._events.rest

    def feed(
        self, data: bytes, ends: Iterable[int], times: Iterable[int]
    ) -> tuple[list[bytes], list[int]]:
        """Take ``data`` made of reads that end at ``ends`` (offsets) and came at ``times``.

        Return the events that are now complete, and when the last byte of each came.
        """
        kept = len(self.body.rest)
        self._ends += [kept + end for end in ends]
        self._times += times
        total = kept + len(data)
        pieces, starts = self.body.feed(data)
        places: list[int] = []
        at = len(self._events.rest)
        for piece in pieces:
            places.append(at)
            at += len(piece)
        events, event_ends = self._events.feed(b"".join(pieces))
        stamps = self._when(event_ends, places, starts)
        used = total - len(self.body.rest)
        first = bisect_right(self._ends, used)
        self._ends = [end - used for end in self._ends[first:]]
        self._times = self._times[first:]
        return events, stamps

    def _when(self, event_ends: list[int], places: list[int], starts: list[int]) -> list[int]:
        """Return the time of the read that holds the last byte of each event.

        ``places``: where each piece starts in the text of events, ``starts``: in the raw bytes.
        """
        stamps: list[int] = []
        piece = read = 0
        for end in event_ends:
            last = end - 1
            while piece + 1 < len(places) and places[piece + 1] <= last:
                piece += 1
            raw = starts[piece] + max(last - places[piece], 0)
            while self._ends[read] <= raw:
                read += 1
            stamps.append(self._times[read])
        return stamps
