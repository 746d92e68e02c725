from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.launch import Target
from pytest_llmperf.model.traffic import (
    Content,
    Prompt,
    Request,
    Traffic,
    TrafficOptions,
    TrafficSpec,
)
from pytest_llmperf.replay.wire import request_bytes

TARGET = Target("127.0.0.1", 8000, "qwen")


def traffic(content: Content = "héllo", **options: Any) -> Traffic:
    known: TrafficOptions = {"num_prompts": 1, **options}
    spec = TrafficSpec.of("t", "literal", {}, known)
    return Traffic(spec, (Request(0, 0, Prompt(content, 1, 16)),))


def sent(
    made: Traffic, target: Target = TARGET, salt: str | None = None
) -> tuple[list[str], dict[str, Any]]:
    """Return the head's lines and the body of the only request."""
    (request,) = request_bytes(made, target, salt)
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[-1] == f"Content-Length: {len(body)}"
    return lines, json.loads(body)


def test_a_completion_request() -> None:
    """Everything that decides what the server does is said, nothing left to its defaults."""
    lines, body = sent(traffic())
    assert lines[:2] == ["POST /v1/completions HTTP/1.1", "Host: 127.0.0.1:8000"]
    assert "Accept-Encoding: identity" in lines
    assert body == {
        "prompt": "héllo",
        "max_tokens": 16,
        "model": "qwen",
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "ignore_eos": True,
    }


def test_a_chat_request() -> None:
    """The prompt becomes the user's message; without ignore_eos the key is not sent."""
    lines, body = sent(traffic(endpoint="chat", ignore_eos=False, temperature=0.5))
    assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
    assert body["messages"] == [{"role": "user", "content": "héllo"}]
    # The name that vLLM's bench sends: max_tokens is deprecated there.
    assert (body["max_completion_tokens"], body["temperature"]) == (16, 0.5)
    assert "max_tokens" not in body
    assert "ignore_eos" not in body
    assert "prompt" not in body


def test_token_ids_are_sent_as_they_are() -> None:
    """On completions a prompt may be token ids; chat takes none and says so."""
    assert sent(traffic((5, 6, 7)))[1]["prompt"] == [5, 6, 7]
    with pytest.raises(SpecError, match="token ids, which the chat endpoint does not take"):
        sent(traffic((5, 6, 7), endpoint="chat"))


def test_a_conversation_is_sent_as_its_messages() -> None:
    """Roles and texts in order; completions takes no messages and says what does."""
    talk = (("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", "Bye"))
    assert sent(traffic(talk, endpoint="chat"))[1]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]
    with pytest.raises(SpecError, match=r"prompts of messages.*take; use endpoint='chat'"):
        sent(traffic(talk))


def test_stop_and_sampling_are_sent() -> None:
    """Beside the rest of the body, lists and nested values as they were written."""
    body = sent(
        traffic(
            ignore_eos=False,
            stop=["\n\n", "END"],
            sampling={"top_p": 0.9, "seed": 7, "logit_bias": {"5": -100}, "bad_words": ["x"]},
        )
    )[1]
    assert body["stop"] == ["\n\n", "END"]
    assert (body["top_p"], body["seed"], body["logit_bias"]) == (0.9, 7, {"5": -100})
    assert body["bad_words"] == ["x"]
    assert (body["temperature"], body["max_tokens"]) == (0.0, 16)


def test_without_stop_or_sampling_neither_is_sent() -> None:
    """The body is what it was before there were any."""
    assert not {"stop", "top_p", "seed"} & set(sent(traffic())[1])


def test_the_salt_keeps_replays_apart() -> None:
    """A salt is sent as cache_salt; without one the key is absent."""
    assert sent(traffic(), salt="r1")[1]["cache_salt"] == "r1"
    assert "cache_salt" not in sent(traffic())[1]


def test_extra_body_wins_and_keeps_its_shape() -> None:
    """Nested values, lists and strings arrive as they were written in the suite."""
    extra = {
        "temperature": 1.0,
        "chat_template_kwargs": {"enable_thinking": False},
        "stop": ["a", "b"],
        "logit_bias": [{"id": 1}],
        "guided_json": '{"type": "object"}',
    }
    body = sent(traffic(extra_body=extra))[1]
    assert {key: body[key] for key in extra} == extra


def test_headers_and_the_key() -> None:
    """The key goes as a bearer token; a traffic's own header takes the place of ours."""
    target = Target("::1", 8000, "qwen", prefix="/api", api_key="s3cret")
    lines, _ = sent(traffic(headers={"x-request-id": "7", "accept": "*/*"}), target)
    assert lines[:2] == ["POST /api/v1/completions HTTP/1.1", "Host: [::1]:8000"]
    assert "Authorization: Bearer s3cret" in lines
    assert "x-request-id: 7" in lines
    assert [line for line in lines if line.lower().startswith("accept:")] == ["accept: */*"]


def test_a_header_that_would_break_the_request_is_refused() -> None:
    """A line break in a header would begin another; its name is said, never its value."""
    with pytest.raises(SpecError, match="header 'x-key'") as caught:
        sent(traffic(headers={"x-key": "s3cret\r\nx: y"}))
    assert "s3cret" not in str(caught.value)


def test_a_text_that_is_no_unicode_is_sent_escaped() -> None:
    """Half a surrogate pair, as public data sets have, does not stop a replay."""
    assert sent(traffic("a\ud83d"))[1]["prompt"] == "a\ud83d"
