"""What the events of one stream say: which of them carried output, and how many tokens.

A chunk carries output when its completion-token count rose, whatever its text (a token may
decode to nothing). Where chunks bear no count it is every chunk that has text to show, one
token each, and the record says ``counted_by="chunk"``.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import orjson

from pytest_llmperf.replay.stream import payload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_llmperf.model.record import CountedBy

DONE = b"[DONE]"
DELTAS = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal")


class Output:
    """Counts a stream's output. ``error`` is what the server or the parser complains of."""

    def __init__(self) -> None:
        self.chunk_ns = array("q")
        self.chunk_tokens = array("i")
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.total: int | None = None
        self.finish_reason: str | None = None
        self.finished = False
        self.error: str | None = None
        self._seen = 0
        self._uncounted = False

    @property
    def counted_by(self) -> CountedBy:
        """Who counted the tokens of the chunks."""
        return "chunk" if self._uncounted else "usage"

    @property
    def tokens(self) -> int | None:
        """Output tokens: the server's count, or the chunks' where it sent none."""
        return self.total if self.total is not None else self._seen or None

    def take(self, events: Iterable[bytes], times: Iterable[int]) -> None:
        """Read events in order, with the time at which each came."""
        for event, time_ns in zip(events, times, strict=True):
            data = payload(event)
            if data is None:
                continue
            if data == DONE:
                self.finished = True
                continue
            try:
                chunk = orjson.loads(data)
            except orjson.JSONDecodeError:
                self.complain(f"an event is not JSON: {shown(data)}")
                continue
            if isinstance(chunk, dict):
                self._take_chunk(chunk, time_ns)
            else:
                self.complain(f"an event is not a JSON object: {shown(data)}")

    def complain(self, error: str) -> None:
        """Keep the first complaint."""
        self.error = self.error or error

    def _take_chunk(self, chunk: Mapping[str, Any], time_ns: int) -> None:
        if chunk.get("error") or chunk.get("object") == "error":
            self.complain(f"the server's error in the stream: {message_of(chunk)}")
            return
        usage = chunk.get("usage")
        count = self._read_usage(usage) if usage else None
        choices = chunk.get("choices")
        if not choices:
            return  # the final usage, a keep-alive: no output
        choice = choices[0]
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        if count is not None and not self._uncounted:
            rise = count - self._seen
        elif carries_output(choice):
            self._uncounted = True
            rise = 1
        else:
            return
        if rise > 0:
            self._seen += rise
            self.chunk_ns.append(time_ns)
            self.chunk_tokens.append(rise)

    def _read_usage(self, usage: Mapping[str, Any]) -> int | None:
        count: int | None = usage.get("completion_tokens")
        if count is not None:
            self.total = count
        if usage.get("prompt_tokens") is not None:
            self.prompt_tokens = usage["prompt_tokens"]
        details = usage.get("prompt_tokens_details")
        if details and details.get("cached_tokens") is not None:
            self.cached_tokens = details["cached_tokens"]
        return count


def carries_output(choice: Mapping[str, Any]) -> bool:
    """Whether a choice that bears no count shows output.

    On chat: a delta with content, reasoning or tool calls. On completions: any choice that is
    not only the finish.
    """
    delta = choice.get("delta")
    if delta is not None:
        return any(delta.get(name) for name in DELTAS)
    return bool(choice.get("text")) or not choice.get("finish_reason")


def message_of(answer: object) -> str:
    """Return the message in a JSON error body of the kinds that servers send."""
    if isinstance(answer, dict):
        for key in ("error", "message", "detail"):
            if answer.get(key):
                return message_of(answer[key])
    return shown(answer if isinstance(answer, str) else orjson.dumps(answer, default=str))


def shown(data: bytes | str, limit: int = 300) -> str:
    """Return text fit for one line of a message."""
    text = data.decode(errors="replace") if isinstance(data, bytes) else data
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}…"
