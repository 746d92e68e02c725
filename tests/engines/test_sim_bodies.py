"""What requests ask for, and the answers' JSON, field for field as vLLM's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_llmperf.engines.sim.bodies import ApiError, Generation, Kind, read_generation
from pytest_llmperf.engines.sim.replies import Answer, Identity, chunk
from pytest_llmperf.engines.sim.tokens import (
    WORD_IDS,
    WORDS,
    Script,
    decode,
    encode,
    encode_chat,
    pack,
    script,
)

USAGE = {"include_usage": True, "continuous_usage_stats": True}


def generation(kind: Kind = "completions", **body: Any) -> Generation:
    """Read a body with a context of 100 tokens."""
    given: dict[str, Any] = {"prompt": [1, 2, 3, 4, 5]} if kind == "completions" else {}
    if kind == "chat":
        given = {"messages": [{"role": "user", "content": "12345678"}]}
    return read_generation(kind, {**given, **body}, max_model_len=100)


def answer(kind: Kind, *, details: bool = False, **body: Any) -> Answer:
    asked = generation(kind, max_tokens=8, stream=True, stream_options=USAGE, **body)
    return Answer(asked, Identity("my-id", 1796033223, "smollm2", details), Script(seed=1))


def event(data: bytes) -> Any:
    assert data.startswith(b"data: ")
    assert data.endswith(b"\n\n")
    return json.loads(data[6:])


def test_prompts_are_counted_by_ids_or_by_text():
    """Ids count as they are; a text has a token for every 4 bytes of UTF-8, begun ones too."""
    assert generation(prompt=[7] * 12).prompt_tokens == 12
    assert generation(prompt="The capital").prompt_tokens == 3
    assert generation(prompt=["The capital"]).prompt_tokens == 3
    assert generation("chat").prompt_tokens == 2 + 4 + 3


def test_equal_beginnings_have_equal_tokens():
    """So that prompts share prefixes as they do with a tokenizer."""
    one, two = encode("the same beginning, one end"), encode("the same beginning, another")
    assert one[:5] == two[:5]
    assert one != two
    assert len(one) == 7


def test_a_chat_begins_as_the_one_before_it_went_on():
    """An answer sent back in the next turn has the ids that were generated, at the same place."""
    first = [("user", "how are you?")]
    said = script(pack(encode_chat(first)))
    second = [*first, ("assistant", said.text(0, 6)), ("user", "fine")]
    turn = encode_chat(first)
    assert encode_chat(second)[: len(turn) + 6] == turn + said.ids(0, 6)
    assert len(turn) == 3 + 3 + 1 + 3


def test_an_answer_follows_from_its_prompt():
    """The same prompt has the same answer in every process; another, and a variant, have others."""
    one, other = script(pack([1, 2, 3])), script(pack([1, 2, 4]))
    assert one.text(0, 4) == " see eye now act"
    assert other.text(0, 8) != one.text(0, 8)
    assert script(pack([1, 2, 3]), variant=1).text(0, 8) != one.text(0, 8)
    assert one.text(0, 3) + one.text(3, 9) == one.text(0, 9)


def test_a_generated_token_is_four_bytes_and_decodes_to_its_word():
    """No two words share an id, and each word is the text that encodes to it."""
    assert len(set(WORD_IDS)) == len(WORDS) == 64
    assert [encode(word) for word in WORDS] == [[token] for token in WORD_IDS]
    said = script(pack([5]))
    assert decode(said.ids(0, 20)) == said.text(0, 20)


def test_wrong_answers_are_wrong_in_their_way():
    """One token over and over; or tokens without a text."""
    usual = script(pack([5]))
    repeat, empty = script(pack([5]), "repeat"), script(pack([5]), "empty")
    assert repeat.text(3, 6) == " the the the"
    assert repeat.ids(0, 2) == [WORD_IDS[0]] * 2
    assert (empty.text(0, 9), empty.ids(0, 9)) == ("", usual.ids(0, 9))


def test_the_limit_is_what_was_asked_for_or_vllms_default():
    """16 for completions; a chat without one ends itself, as if the model had stopped."""
    assert (generation(max_tokens=7).max_tokens, generation().max_tokens) == (7, 16)
    asked = generation("chat", max_tokens=50, max_completion_tokens=9)
    assert (asked.max_tokens, asked.finish) == (9, "length")
    chat = {"messages": [{"role": "user", "content": "hello"}]}
    free = read_generation("chat", chat, max_model_len=1000)
    assert (free.max_tokens, free.finish) == (128, "stop")
    ignoring = read_generation("chat", {**chat, "ignore_eos": True}, max_model_len=1000)
    assert (ignoring.max_tokens, ignoring.finish) == (1000 - 9, "length")


def test_an_answer_is_cut_where_the_context_ends():
    """95 of 100 tokens are the prompt's: 5 are left of the 20 that were asked for."""
    asked = generation(prompt=[1] * 95, max_tokens=20)
    assert (asked.max_tokens, asked.asked_tokens) == (5, 20)


def test_usage_comes_with_every_chunk_only_if_it_comes_at_all():
    """As in vLLM, continuous usage needs include_usage."""
    options: list[dict[str, bool]] = [{}, {"continuous_usage_stats": True}]
    options += [{"include_usage": True}, USAGE]
    found = [generation(stream=True, stream_options=given) for given in options]
    flags = [(asked.final_usage, asked.continuous_usage) for asked in found]
    assert flags == [(False, False), (False, False), (True, False), (True, True)]


@pytest.mark.parametrize(
    ("kind", "body", "param", "words"),
    [
        ("completions", {"prompt": [1] * 101}, "input_tokens", "maximum context length is 100"),
        ("completions", {"prompt": [1] * 100}, "max_tokens", "at least 1, got 0"),
        ("completions", {"prompt": ""}, "prompt", "must be provided and non-empty"),
        ("completions", {"prompt": [1, "a"]}, "prompt", "list of token ids"),
        ("completions", {"prompt": [1, 2**32]}, "prompt", "list of token ids"),
        ("completions", {"max_tokens": 0}, "max_tokens", "at least 1, got 0"),
        ("completions", {"max_tokens": 101}, "max_tokens", "greater than max_model_len=100"),
        ("completions", {"max_tokens": "5"}, "max_tokens", "valid integer"),
        ("completions", {"stream_options": USAGE}, "stream_options", "`stream=True`"),
        ("completions", {"cache_salt": ""}, "cache_salt", "non-empty string"),
        ("completions", {"temperature": -1}, "temperature", "must be non-negative"),
        ("completions", {"n": 2}, "n", "one choice"),
        ("chat", {"messages": []}, "messages", "at least one message"),
        ("chat", {"messages": [{"content": "x"}]}, "messages", "with a role"),
    ],
)
def test_what_vllm_refuses_is_refused(kind: Kind, body: dict[str, Any], param: str, words: str):
    """With status 400, the parameter and vLLM's words."""
    with pytest.raises(ApiError, match=words) as error:
        generation(kind, **body)
    assert (error.value.status, error.value.param) == (400, param)


def test_a_completion_event_is_vllms():
    """Equal to the recording of vLLM 0.32.0, but for the text."""
    text = Script(seed=1).text(7, 8)
    assert event(answer("completions").token_event(8, "length", usage=True)) == {
        "id": "cmpl-my-id",
        "object": "text_completion",
        "created": 1796033223,
        "model": "smollm2",
        "choices": [
            {
                "index": 0,
                "text": text,
                "logprobs": None,
                "finish_reason": "length",
                "stop_reason": None,
                "prompt_token_ids": None,
                "token_ids": None,
            }
        ],
        "usage": {"prompt_tokens": 5, "total_tokens": 13, "completion_tokens": 8},
    }


def test_chats_first_event_is_a_role_without_a_token():
    """Its usage says 0 completion tokens, as recorded: it is no output."""
    first = event(answer("chat").role_event(usage=True))
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"] == [
        {
            "index": 0,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
    ]
    assert first["usage"] == {
        "prompt_tokens": 9,
        "total_tokens": 9,
        "completion_tokens": 0,
        "completion_tokens_details": None,
    }


def test_a_chat_event_is_vllms():
    """The stop reason is there with the last token only; without usage there is none."""
    middle = event(answer("chat").token_event(1, None, usage=False))
    last = event(answer("chat").token_event(2, "length", usage=True))
    text = Script(seed=1).text(0, 1)
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None}
    assert middle["choices"] == [{**choice, "finish_reason": None, "token_ids": None}]
    assert "usage" not in middle
    assert last["choices"][0]["finish_reason"] == "length"
    assert last["choices"][0]["stop_reason"] is None
    assert last["usage"]["completion_tokens"] == 2


def test_the_last_usage_tells_cached_tokens_where_the_server_was_asked_to():
    """``--enable-prompt-tokens-details``; there is no choice in that event."""
    plain = event(answer("completions").usage_event(8, 4))
    told = event(answer("completions", details=True).usage_event(8, 4))
    assert plain["choices"] == []
    assert plain["usage"] == {"prompt_tokens": 5, "total_tokens": 13, "completion_tokens": 8}
    assert told["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}


def test_a_whole_document_has_all_tokens():
    """The same text as the stream's, in one piece, with the usage."""
    completion = json.loads(answer("completions").document(3, "length", 0))
    chat = json.loads(answer("chat", details=True).document(3, "stop", 2))
    text = "".join(Script(seed=1).text(at, at + 1) for at in range(3))
    assert completion["choices"][0]["text"] == text
    assert completion["usage"]["prompt_tokens_details"] is None
    assert chat["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert completion["usage"]["total_tokens"] == 8
    assert chat["choices"][0]["message"]["content"] == text
    assert (chat["object"], chat["choices"][0]["finish_reason"]) == ("chat.completion", "stop")


def test_tokens_of_one_step_are_one_event():
    """Their texts joined, and a usage that counts them all; ids only where they are asked for."""
    told = event(answer("completions").token_event(8, None, usage=True, new=3))
    assert told["choices"][0]["text"] == Script(seed=1).text(5, 8)
    assert told["choices"][0]["token_ids"] is None
    assert told["usage"]["completion_tokens"] == 8


def test_token_ids_are_told_where_they_are_asked_for():
    """``return_token_ids``: each chunk's own, and the prompt's in the first, as recorded."""
    said = Script(seed=1)
    completion = answer("completions", return_token_ids=True)
    first = event(completion.token_event(2, None, usage=False, new=2))["choices"][0]
    later = event(completion.token_event(3, None, usage=False))["choices"][0]
    assert (first["token_ids"], first["prompt_token_ids"]) == (said.ids(0, 2), [1, 2, 3, 4, 5])
    assert (later["token_ids"], later["prompt_token_ids"]) == (said.ids(2, 3), None)
    chat = answer("chat", return_token_ids=True)
    assert event(chat.role_event(usage=False))["prompt_token_ids"] == encode_chat(
        [("user", "12345678")]
    )
    assert event(chat.token_event(1, None, usage=False))["choices"][0]["token_ids"] == said.ids(
        0, 1
    )


def test_a_whole_document_tells_token_ids_where_they_are_asked_for():
    """In the choice; the prompt's in a completion's choice, beside the choices in a chat."""
    said = Script(seed=1)
    completion = json.loads(answer("completions", return_token_ids=True).document(3, "stop", 0))
    chat = json.loads(answer("chat", return_token_ids=True).document(3, "stop", 0))
    assert completion["choices"][0]["token_ids"] == said.ids(0, 3)
    assert completion["choices"][0]["prompt_token_ids"] == [1, 2, 3, 4, 5]
    assert chat["choices"][0]["token_ids"] == said.ids(0, 3)
    assert len(chat["prompt_token_ids"]) == 9


def test_a_chunk_says_its_length():
    """In hexadecimal digits, as HTTP/1.1 frames it."""
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
