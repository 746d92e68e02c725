"""What a client is told about prefix hits, drafts, token ids and texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_llmperf.engines.sim.drafting import Drafting
from tests.engines.inprocess import Client, document, events, served, status

DETAILS = "--enable-prompt-tokens-details"
USAGE = {"include_usage": True, "continuous_usage_stats": True}


@dataclass(frozen=True)
class Asked:
    """Speculation that is always right."""

    tokens: int = 4
    rate: float = 1.0
    method: str = "draft_model"


def cached(answer: bytes) -> int:
    found: int = document(answer)["usage"]["prompt_tokens_details"]["cached_tokens"]
    return found


def test_the_usage_tells_what_the_cache_had_of_a_prompt():
    """40 tokens: none at first, then 32 in 2 blocks; none with a ``cache_salt`` of its own."""

    async def talk(client: Client) -> list[int]:
        prompt = list(range(40))
        bodies: list[dict[str, Any]] = [{}, {}, {"cache_salt": "a"}, {"cache_salt": "a"}]
        return [cached(await client.ask(prompt=prompt, **body)) for body in bodies]

    assert served(DETAILS, talk=talk) == [0, 32, 0, 32]


def test_switched_off_the_usage_tells_no_hit():
    """``--no-enable-prefix-caching``: nothing is hashed and nothing is found."""

    async def talk(client: Client) -> list[int]:
        return [cached(await client.ask(prompt=list(range(40)))) for _ in range(2)]

    assert served(DETAILS, "--no-enable-prefix-caching", talk=talk) == [0, 0]


def test_the_next_turn_of_a_chat_finds_the_last_one_and_its_answer():
    """A first turn of 4 + 10 + 3 tokens and 40 of answer: 57 known, 56 with KV: 3 full blocks."""

    async def talk(client: Client) -> int:
        path = "/v1/chat/completions"
        messages = [{"role": "user", "content": "x" * 40}]
        said = document(await client.ask(path, messages=messages, max_tokens=40))
        messages += [said["choices"][0]["message"], {"role": "user", "content": "and then?"}]
        return cached(await client.ask(path, messages=messages, max_tokens=1))

    assert served(DETAILS, talk=talk) == 48


def test_drafts_that_are_right_come_in_one_event():
    """12 tokens with 4 drafts: 1, 5, 5 and 1, as the usage of each event and its text say."""

    async def talk(client: Client) -> list[Any]:
        return events(await client.ask(max_tokens=12, stream=True, stream_options=USAGE))

    found = served(talk=talk, drafting=Drafting(Asked()))
    assert [event["usage"]["completion_tokens"] for event in found] == [1, 6, 11, 12, 12]
    assert [len(event["choices"][0]["text"]) for event in found[:-1]] == [4, 20, 20, 4]


def test_greedy_answers_are_the_same_with_and_without_drafts():
    """As with a true verification; so are those of two launches."""

    async def talk(client: Client) -> str:
        text: str = document(await client.ask(max_tokens=30))["choices"][0]["text"]
        return text

    plain, drafted = served(talk=talk), served(talk=talk, drafting=Drafting(Asked(rate=0.5)))
    assert plain == drafted
    assert len(plain.split()) == 30


def test_token_ids_and_texts_agree():
    """``return_token_ids``, and ``/detokenize`` of what it returned."""

    async def talk(client: Client) -> tuple[str, str, list[int]]:
        choice = document(await client.ask(return_token_ids=True))["choices"][0]
        back = document(await client.ask("/detokenize", tokens=choice["token_ids"]))
        return choice["text"], back["prompt"], choice["prompt_token_ids"]

    text, back, prompt = served(talk=talk)
    assert (text, prompt) == (back, [1, 2, 3])


def test_tokenize_tells_the_ids_that_a_prompt_has():
    """Of a text, and of messages: 4 around each and 3 before the answer."""

    async def talk(client: Client) -> list[Any]:
        text = document(await client.ask("/tokenize", prompt="x" * 12))
        chat = document(
            await client.ask("/tokenize", messages=[{"role": "user", "content": "x" * 12}])
        )
        choice = document(await client.ask(prompt="x" * 12, return_token_ids=True))["choices"][0]
        return [text, chat, choice["prompt_token_ids"]]

    text, chat, prompt = served(talk=talk)
    assert text["tokens"] == prompt
    assert (text["count"], chat["count"]) == (3, 3 + 4 + 3)


def test_detokenize_wants_token_ids():
    """Anything else is answered with 400."""

    async def talk(client: Client) -> list[int]:
        bodies: list[dict[str, Any]] = [{}, {"tokens": ["a"]}, {"tokens": [-1]}, {"tokens": []}]
        return [status(await client.ask("/detokenize", **body)) for body in bodies]

    assert served(talk=talk) == [400, 400, 400, 200]
