"""What a server is asked to see what it answers, and what comes of its answers."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_llmperf.errors import ServerDiedError
from pytest_llmperf.model.answers import Answer, Answers
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.replay.probe import probe
from tests.replay.scripted import Client, scripted

IDS = [5, 6, 7]


def traffic(*contents: Any, after: int | None = None, **options: Any) -> Traffic:
    """Return requests with those prompts, each asking for 300 tokens."""
    spec = TrafficSpec.of("t", "literal", {}, {"num_prompts": len(contents), **options})
    prompts = [Prompt(content, 1, 300) for content in contents]
    if after is not None:
        prompts[-1] = Prompt(contents[-1], 1, 300, after=after)
    return Traffic(spec, tuple(Request(i, i * 10, p) for i, p in enumerate(prompts)))


@contextmanager
def answering(*answers: tuple[int, Any]):
    """Serve these (status, JSON) in turn, the last one ever after; yields the server."""
    left = list(answers)

    def script(client: Client) -> None:
        while client.request() is not None:
            status, body = left.pop(0) if len(left) > 1 else left[0]
            data = json.dumps(body).encode()
            head = b"HTTP/1.1 %d x\r\ncontent-type: application/json\r\n" % status
            client.send(head + b"content-length: %d\r\n\r\n%s" % (len(data), data))

    with scripted(script) as server:
        yield server


def completion(text: str, ids: list[int] | None = None, **more: Any) -> tuple[int, dict[str, Any]]:
    return 200, {"choices": [{"index": 0, "text": text, "token_ids": ids, **more}]}


def chat(**message: Any) -> tuple[int, dict[str, Any]]:
    return 200, {"choices": [{"index": 0, "message": message}]}


def bodies(server) -> list[dict[str, Any]]:
    return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in server.requests]


def test_the_first_prompts_are_asked_greedily_and_one_at_a_time():
    """The replay's own body, 16 tokens at temperature 0, no stream, a salt each."""
    made = traffic("a", "b", "c", "d", "e", temperature=0.7, sampling={"top_p": 0.5, "seed": 1})
    with answering(completion("x", IDS)) as server:
        found = probe(made, server.target, salt="s")
    assert found == Answers((Answer("x", (5, 6, 7)),) * 4)
    asked = bodies(server)
    assert [body["prompt"] for body in asked] == ["a", "b", "c", "d"]
    assert asked[1] == {
        "prompt": "b",
        "max_tokens": 16,
        "model": "m",
        "temperature": 0.0,
        "ignore_eos": True,
        "cache_salt": "s-1",
        "return_token_ids": True,
    }


def test_an_extra_body_cannot_make_the_answers_longer_random_or_many():
    """What the suite adds is sent, but for what would change what is asked."""
    extra = {"temperature": 1.0, "max_tokens": 900, "min_tokens": 50, "n": 2, "user": "ci"}
    with answering(completion("x")) as server:
        probe(traffic("a", extra_body=extra), server.target, salt="s")
    (body,) = bodies(server)
    assert (body["temperature"], body["max_tokens"], body["user"]) == (0.0, 16, "ci")
    assert not {"n", "min_tokens", "stream", "stream_options"} & set(body)


@pytest.mark.parametrize(
    "extra",
    [
        {"stop": ["\n"]},
        {"stop_token_ids": [198]},
        {"include_reasoning": False},
        {"skip_special_tokens": False},
        {"echo": True},
        {"response_format": {"type": "json_object"}},
        {"structured_outputs": {"regex": "a+"}},
        {"guided_json": {"type": "object"}, "guided_decoding_backend": "auto"},
        {"tools": [{"type": "function"}], "tool_choice": "required"},
        {"logit_bias": {"0": 100}},
        {"allowed_token_ids": [7]},
        {"repetition_penalty": 1.3, "presence_penalty": 1.0, "frequency_penalty": 1.0},
        {"thinking_token_budget": 0},
    ],
    ids=lambda extra: next(iter(extra)),
)
def test_what_ends_hides_or_bends_an_answer_is_not_asked_for(extra):
    """An answer to it would tell of the traffic and not of the engine; the prompt's shape stays."""
    shape = {"chat_template_kwargs": {"enable_thinking": False}, "truncate_prompt_tokens": 9}
    with answering(completion("x")) as server:
        probe(traffic("a", extra_body={**extra, **shape}), server.target, salt="s")
        probe(traffic("a", extra_body=shape), server.target, salt="s")
    with_extra, without = bodies(server)
    assert with_extra == without
    assert with_extra["chat_template_kwargs"] == {"enable_thinking": False}
    assert with_extra["truncate_prompt_tokens"] == 9


def test_the_traffics_own_stop_texts_do_not_end_a_probe():
    """Four sound answers that begin with a line break would be four empty ones."""
    with answering(completion("\nyes")) as server:
        probe(traffic("a", ignore_eos=False, stop="\n"), server.target, salt="s")
    (body,) = bodies(server)
    assert "stop" not in body
    assert "ignore_eos" not in body


def test_why_an_answer_ended_is_kept():
    """Where the server says so, in a word: one that ended by itself is not judged."""
    with answering(
        completion("", [2], finish_reason="stop"),
        completion("x", IDS, finish_reason="length"),
        completion("x", IDS, finish_reason=None),
        completion("x", IDS, finish_reason=7),
    ) as server:
        found = probe(traffic(*"abcd", ignore_eos=False), server.target, salt="s")
    assert [answer.finish_reason for answer in found.answers] == ["stop", "length", None, None]
    assert found.answers[0] == Answer("", (2,), "stop")


def test_a_chats_answer_is_all_that_it_says():
    """Reasoning, content and calls of tools, in that order; nothing at all is an empty text."""
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    with answering(
        chat(reasoning="Hm. ", content="Yes"),
        chat(reasoning_content="Hm.", content=None),
        chat(content=None, tool_calls=[call]),
        chat(content=None),
    ) as server:
        found = probe(traffic(*"abcd", endpoint="chat"), server.target, salt="s")
    called = '{"function": {"arguments": "{}", "name": "f"}, "type": "function"}'
    assert [answer.text for answer in found.answers] == ["Hm. Yes", "Hm.", called, ""]
    assert [answer.counted_by for answer in found.answers] == ["text"] * 4
    assert bodies(server)[0]["messages"] == [{"role": "user", "content": "a"}]


def test_a_later_turn_of_a_conversation_is_not_asked():
    """It would follow an answer that was not given."""
    with answering(completion("x")) as server:
        found = probe(traffic("a", "b", after=0), server.target, salt="s")
    assert len(found.answers) == len(server.requests) == 1


def test_a_server_that_refuses_the_token_ids_is_asked_without():
    """400 to what it does not know; the answer is then known by its text."""
    with answering((400, {"error": "unknown field"}), completion("x")) as server:
        found = probe(traffic("a"), server.target, salt="s")
    assert found == Answers((Answer("x"),))
    assert ["return_token_ids" in body for body in bodies(server)] == [True, False]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((500, {"error": "out of cheese"}), 'answered 500: {"error": "out of cheese"}'),
        ((200, {"choices": []}), 'answered 200: {"choices": []}'),
        ((200, []), "answered 200: []"),
    ],
)
def test_what_is_no_answer_ends_the_probe_and_is_told(answer, said):
    """What came before is kept; the server lives, so nothing is raised."""
    with answering(completion("x", IDS), answer) as server:
        found = probe(traffic("a", "b", "c"), server.target, salt="s", random_weights=True)
    assert found.answers == (Answer("x", (5, 6, 7)),)
    assert found.random_weights
    assert found.error is not None
    assert said in found.error
    assert len(server.requests) == 2


def test_half_a_character_is_told_and_not_a_crash():
    """A prompt cut in a surrogate pair has no UTF-8; a replay sends it escaped."""
    with answering(completion("x")) as server:
        found = probe(traffic("\ud83d"), server.target, salt="s")
    assert "surrogates not allowed" in str(found.error)


def test_a_server_that_has_died_is_an_error_of_its_own():
    """Nothing listens: whoever watches the server says why."""
    with answering(completion("x")) as server:
        gone = server.target
    looks = []

    def watch() -> None:
        looks.append(1)
        if len(looks) > 1:
            raise ServerDiedError("CUDA out of memory")

    with pytest.raises(ServerDiedError, match="CUDA out of memory"):
        probe(traffic("a"), gone, salt="s", watch=watch)
    assert "refused" in str(probe(traffic("a"), gone, salt="s").error)


def test_a_traffics_own_headers_are_sent():
    """A proxy that asks for them would else answer nothing."""
    with answering(completion("x", IDS)) as server:
        probe(traffic("a", headers={"X-Tenant": "nightly"}), server.target, salt="s")
        (request,) = server.requests
    assert b"x-tenant: nightly" in request.lower()
