from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmperf.replay.output import Output, message_of
from pytest_llmperf.replay.stream import Events

DATA = Path(__file__).with_name("data")


def sse(**body: Any) -> bytes:
    return b"data: " + json.dumps(body).encode()


def completion(text: str, count: int | None = None, finish: str | None = None) -> bytes:
    usage = None if count is None else {"prompt_tokens": 9, "completion_tokens": count}
    return sse(choices=[{"text": text, "finish_reason": finish}], usage=usage)


def chat(delta: dict[str, Any], count: int | None = None, finish: str | None = None) -> bytes:
    usage = None if count is None else {"prompt_tokens": 9, "completion_tokens": count}
    return sse(choices=[{"delta": delta, "finish_reason": finish}], usage=usage)


def read(*events: bytes) -> Output:
    """Take events that come at 100, 200, 300 ns and so on."""
    output = Output()
    output.take(events, [100 * (i + 1) for i in range(len(events))])
    return output


def chunks(output: Output) -> list[tuple[int, int]]:
    return list(zip(output.chunk_ns, output.chunk_tokens, strict=True))


def test_a_chunk_carries_output_when_its_count_rose() -> None:
    """Two tokens at once, an empty text that is a token, and a repeated count that is none."""
    output = read(
        completion("a", 1), completion("bc", 3), completion("", 4), completion("d", 4),
        sse(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 4}), b"data: [DONE]",
    )  # fmt: skip
    assert chunks(output) == [(100, 1), (200, 2), (300, 1)]
    assert (output.prompt_tokens, output.tokens, output.counted_by) == (9, 4, "usage")
    assert output.finished
    assert output.error is None


def test_a_role_chunk_is_no_output() -> None:
    """With counts its count is 0; without, it has no content."""
    role = {"role": "assistant", "content": ""}
    assert chunks(read(chat(role, 0), chat({"content": "a"}, 1))) == [(200, 1)]
    assert chunks(read(chat(role), chat({"content": "a"}))) == [(200, 1)]


def test_usage_and_keep_alive_chunks_are_no_output() -> None:
    """Neither the final usage, nor a comment, nor an event without choices."""
    output = read(b": ping", sse(choices=[]), sse(usage={"completion_tokens": 7}, choices=[]))
    assert chunks(output) == []
    assert output.tokens == 7


def test_without_counts_every_chunk_with_a_choice_is_a_token() -> None:
    """Completions: an empty text counts, a bare finish does not; the total is the server's."""
    output = read(
        completion("a"), completion(""), completion("b"), completion("", finish="length"),
        sse(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 5}),
    )  # fmt: skip
    assert chunks(output) == [(100, 1), (200, 1), (300, 1)]
    assert (output.counted_by, output.tokens, output.finish_reason) == ("chunk", 5, "length")


def test_a_finish_with_text_is_output() -> None:
    """The last token may come with the finish reason."""
    assert chunks(read(completion("a"), completion("b", finish="stop"))) == [(100, 1), (200, 1)]


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"},
        {"reasoning_content": "x"},
        {"reasoning": "x"},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
    ],
)
def test_on_chat_content_reasoning_and_tool_calls_are_output(delta: dict[str, Any]) -> None:
    """Without counts, each kind of delta that a model writes is one token."""
    assert chunks(read(chat(delta), chat({}, finish="stop"))) == [(100, 1)]


def test_without_any_count_the_chunks_are_counted() -> None:
    """No usage at all: the number of chunks stands for the tokens, and the record says so."""
    output = read(completion("a"), completion("b"))
    assert (output.tokens, output.counted_by, output.prompt_tokens) == (2, "chunk", None)


def test_a_count_on_the_finish_alone_does_not_move_the_tokens_there() -> None:
    """A server that counts only on its last chunk is counted by chunk, with its total."""
    output = read(completion("a"), completion("b"), completion("", 2, finish="length"))
    assert chunks(output) == [(100, 1), (200, 1)]
    assert (output.counted_by, output.tokens) == ("chunk", 2)


def test_cached_tokens_come_from_the_details() -> None:
    """``prompt_tokens_details`` may be null, and its cached tokens may be 0."""
    usage = {"prompt_tokens": 64, "completion_tokens": 1, "prompt_tokens_details": None}
    assert read(sse(choices=[], usage=usage)).cached_tokens is None
    usage["prompt_tokens_details"] = {"cached_tokens": 48}
    assert read(sse(choices=[], usage=usage)).cached_tokens == 48
    usage["prompt_tokens_details"] = {"cached_tokens": 0}
    assert read(sse(choices=[], usage=usage)).cached_tokens == 0


def test_an_error_inside_the_stream_is_an_error() -> None:
    """What vLLM sends with status 200 when its engine dies, [DONE] or not."""
    error = {"message": "EngineCore encountered an issue.", "type": "InternalServerError"}
    output = read(completion("a", 1), sse(error=error), b"data: [DONE]")
    assert output.error == "the server's error in the stream: EngineCore encountered an issue."
    assert chunks(output) == [(100, 1)]


@pytest.mark.parametrize("data", [b"data: {cut", b"data: [1]", b"data: \xff"])
def test_an_event_that_is_no_object_is_an_error(data: bytes) -> None:
    """The first complaint is kept."""
    output = read(data, completion("a", 1))
    assert output.error is not None
    assert output.error.startswith("an event is not")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"error": {"message": "too long", "code": 400}}, "too long"),
        ({"error": "Unauthorized"}, "Unauthorized"),
        ({"object": "error", "message": "too long", "code": 400}, "too long"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body"]}]}, '[{"loc":["body"]}]'),
        ({"status": 1}, '{"status":1}'),
    ],
)
def test_the_message_is_found_in_error_bodies(answer: object, message: str) -> None:
    """OpenAI's, vLLM's old, FastAPI's: the words a person needs."""
    assert message_of(answer) == message


@pytest.mark.parametrize(
    ("name", "prompt_tokens", "tokens"),
    [("completions", 5, 8), ("chat", 37, 8), ("crash", None, 4)],
)
def test_real_streams_of_vllm(name: str, prompt_tokens: int | None, tokens: int) -> None:
    """vLLM 0.32: both endpoints with continuous usage, and an engine that died in a stream."""
    raw = (DATA / f"{name}.txt").read_bytes().replace(b"\r\n", b"\n")
    events, ends = Events().feed(raw.partition(b"\n\n")[2])
    output = Output()
    output.take(events, ends)
    assert list(output.chunk_tokens) == [1] * tokens
    assert (output.prompt_tokens, output.tokens) == (prompt_tokens, tokens)
    assert output.finished
    if name == "crash":
        assert output.error is not None
        assert "EngineCore encountered an issue" in output.error
        assert output.counted_by == "chunk"
    else:
        assert (output.error, output.finish_reason, output.counted_by) == (None, "length", "usage")
