"""Reading the bodies of requests, with vLLM's rules and its words where they are broken.

Fields that are not named here are ignored, as vLLM ignores what it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_llmperf.engines.sim.tokens import encode, encode_chat

DEFAULT_COMPLETION_TOKENS = 16
NATURAL_TOKENS = 128
"""A chat that sets no limit ends itself after this many tokens ("stop"): a typical answer."""
LARGEST_ID = 2**32

Body = Mapping[str, Any]
Kind = Literal["completions", "chat"]


class ApiError(Exception):
    """A request that is answered with an error in vLLM's shape."""

    def __init__(
        self, message: str, param: str | None = None, status: int = 400, kind: str | None = None
    ) -> None:
        self.message = message
        self.param = param
        self.status = status
        self.kind = kind or "BadRequestError"
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Generation:
    """What a request asks to be generated after ``prompt``, its token ids.

    ``max_tokens`` is what it will get and ``asked_tokens`` what it asked for: a request is cut
    where the context ends. ``final_usage``: a last chunk with the usage; ``continuous_usage``:
    every chunk has one. ``return_token_ids``: the ids are told beside the text.
    """

    kind: Kind
    prompt: Sequence[int] = field(repr=False)
    max_tokens: int
    asked_tokens: int
    finish: Literal["stop", "length"]
    stream: bool
    final_usage: bool
    continuous_usage: bool
    cache_salt: str | None
    return_token_ids: bool

    @property
    def prompt_tokens(self) -> int:
        """The prompt's length."""
        return len(self.prompt)


def read_generation(kind: Kind, body: Body, max_model_len: int) -> Generation:
    """Read the body of ``/v1/completions`` or ``/v1/chat/completions``; raise ApiError."""
    _check_values(body)
    limit = _limit(kind, body, max_model_len)
    prompt = read_prompt(kind, body)
    prompt_tokens = len(prompt)
    if prompt_tokens > max_model_len:
        raise ApiError(
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt "
            f"contains {prompt_tokens} input tokens, which exceeds this limit even without any "
            "output tokens. Please reduce the length of the input prompt. "
            f"(parameter=input_tokens, value={prompt_tokens})",
            "input_tokens",
        )
    room = max_model_len - prompt_tokens
    asked = room if limit is None else limit
    tokens = min(asked, room)
    if tokens < 1:
        raise ApiError(
            f"max_tokens must be at least 1, got {tokens}. (parameter=max_tokens, value={tokens})",
            "max_tokens",
        )
    ends_itself = limit is None and not body.get("ignore_eos") and tokens > NATURAL_TOKENS
    options = body.get("stream_options") or {}
    final = bool(options.get("include_usage"))
    return Generation(
        kind,
        prompt,
        NATURAL_TOKENS if ends_itself else tokens,
        asked,
        "stop" if ends_itself else "length",
        bool(body.get("stream")),
        final,
        final and bool(options.get("continuous_usage_stats")),
        body.get("cache_salt"),
        bool(body.get("return_token_ids")),
    )


def read_prompt(kind: Kind, body: Body) -> Sequence[int]:
    """Return the token ids of the prompt: given, or encoded from its text or its messages."""
    if kind == "chat":
        return encode_chat([(message["role"], _text(message)) for message in _messages(body)])
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if not prompt:
        raise ApiError(
            "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)",
            "prompt",
        )
    if isinstance(prompt, str):
        return encode(prompt)
    if isinstance(prompt, list) and are_token_ids(prompt):
        return prompt
    raise ApiError(
        "prompt: a text or a list of token ids is needed; the simulated engine takes one prompt "
        "a request",
        "prompt",
    )


def are_token_ids(values: Sequence[object]) -> bool:
    """Return whether these are whole numbers of 32 bits."""
    return all(type(value) is int and 0 <= value < LARGEST_ID for value in values)


def _messages(body: Body) -> Sequence[Body]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError("messages: a list of at least one message is needed", "messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError("messages: each one is an object with a role", "messages")
    return messages


def _text(message: Body) -> str:
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    raise ApiError("messages: content is a text or a list of parts", "messages")


def _limit(kind: Kind, body: Body, max_model_len: int) -> int | None:
    """Return the tokens asked for; None: as many as the context has room for."""
    name = "max_tokens"
    if kind == "chat" and body.get("max_completion_tokens") is not None:
        name = "max_completion_tokens"
    limit = body.get(name)
    if limit is None:
        return DEFAULT_COMPLETION_TOKENS if kind == "completions" else None
    if type(limit) is not int:
        raise ApiError(f"{name}: Input should be a valid integer, got {limit!r}", name)
    if limit < 1:
        raise ApiError(
            f"max_tokens must be at least 1, got {limit}. (parameter=max_tokens, value={limit})",
            "max_tokens",
        )
    if limit > max_model_len:
        raise ApiError(
            f"max_tokens={limit} cannot be greater than max_model_len={max_model_len}. Please "
            f"request fewer output tokens. (parameter=max_tokens, value={limit})",
            "max_tokens",
        )
    return limit


def _check_values(body: Body) -> None:
    salt = body.get("cache_salt")
    if salt is not None and (not isinstance(salt, str) or not salt):
        raise ApiError(
            "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)",
            "cache_salt",
        )
    options = body.get("stream_options")
    if options and not body.get("stream"):
        raise ApiError(
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
            "stream_options",
        )
    if options and not isinstance(options, dict):
        raise ApiError("stream_options: Input should be an object", "stream_options")
    if body.get("n", 1) not in (1, None):
        raise ApiError(f"n={body['n']}: the simulated engine gives one choice a request", "n")
    temperature = body.get("temperature")
    if temperature is not None and (
        not isinstance(temperature, int | float) or isinstance(temperature, bool) or temperature < 0
    ):
        raise ApiError(
            f"temperature must be non-negative, got {temperature}. (parameter=temperature, "
            f"value={temperature})",
            "temperature",
        )
