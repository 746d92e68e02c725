"""The answer to one request: fed with what came, then asked whether it is all there."""

from __future__ import annotations

import orjson

from pytest_llmperf.replay.framing import Framing, Head, HeadError
from pytest_llmperf.replay.output import Output, message_of, shown
from pytest_llmperf.replay.stream import Stream

KEPT_TEXT = 65536
OK = 200


class Answer:
    """One answer being read. ``last_ns``: when its latest bytes came."""

    def __init__(self) -> None:
        self.output = Output()
        self.last_ns: int | None = None
        self.ended = False
        self._stream = Stream()
        self._no_http: str | None = None
        self._text = b""

    @property
    def head(self) -> Head | None:
        """The response's head, once it came."""
        return self._stream.body.head

    def feed(self, data: bytes, ends: list[int], times: list[int]) -> None:
        """Take more reads: their bytes, where each ends in them, and when it came (ns)."""
        self.last_ns = times[-1]
        if self._no_http is not None:
            return
        try:
            events, stamps = self._stream.feed(data, ends, times)
        except HeadError as error:
            self._no_http = str(error)
            return
        if self._refusal() is None:
            self.output.take(events, stamps)
        elif len(self._text) < KEPT_TEXT:
            self._text += b"".join(event + b"\n\n" for event in events)

    def verdict(self, *, lost: str | None, asked: int, all_of_them: bool) -> str | None:
        """Close the answer; return what is wrong with it, None where it is all there.

        ``lost``: what became of the connection, if it did not end well. ``all_of_them``:
        the server was told to go on until ``asked`` tokens are there (``ignore_eos``).
        """
        if self.head is None:
            return self._no_http or lost or "no answer"
        body = self._stream.body
        refusal = self._refusal()
        self.ended = body.complete or (self.head.framing is Framing.CLOSE and lost is None)
        if refusal is not None:
            return f"{refusal}: {self._message()}".removesuffix(": ")
        if self.ended and self._stream.remainder.strip() and self.last_ns is not None:
            self.output.take([self._stream.remainder], [self.last_ns])
        self.ended = self.ended or self.output.finished
        return self.output.error or body.broken or self._shortfall(lost, asked, all_of_them)

    def _refusal(self) -> str | None:
        """Return why the body is no stream of events, None where it should be one."""
        head = self.head
        if head is None:
            return None
        if head.status != OK:
            return f"HTTP {head.status}"
        encoding = head.headers.get("content-encoding", "identity")
        if encoding != "identity":
            return f"content-encoding {encoding}, though only identity was accepted"
        kind = head.headers.get("content-type", "")
        if "json" in kind or "html" in kind:
            return f"not a stream but content-type {kind}"
        return None

    def _message(self) -> str:
        if self.head is not None and "content-encoding" in self.head.headers:
            return ""
        text = self._text + self._stream.remainder
        try:
            return message_of(orjson.loads(text))
        except orjson.JSONDecodeError:
            return shown(text)

    def _shortfall(self, lost: str | None, asked: int, all_of_them: bool) -> str | None:  # noqa: FBT001
        output = self.output
        got = output.tokens or 0
        short = f"incomplete: {got} of {asked} tokens"
        if not self.ended:
            return f"{short} ({lost or 'the stream has no end'})"
        counted = output.total is not None or output.finish_reason != "length"
        if all_of_them and got < asked and counted:
            return short
        if not output.chunk_ns:
            return "no output: the stream ended without a token"
        whole = all_of_them and got >= asked
        if not (output.finished or output.finish_reason or whole):
            return f"{short}, with neither a finish reason nor [DONE]"
        return None
