"""The answers to generations: server-sent events in HTTP chunks, or one JSON document.

Events have vLLM's fields, order and nulls, recorded from 0.32.0; a whole document leaves out
those at its end that other features would fill.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_llmperf.engines.sim.connection import LAST_CHUNK, Connection

if TYPE_CHECKING:
    from pytest_llmperf.engines.sim.bodies import Generation
    from pytest_llmperf.engines.sim.core import Finish, Reply
    from pytest_llmperf.engines.sim.tokens import Script

FINGERPRINT = "vllm-0.25.1-sim"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Identity:
    """What every part of an answer repeats. ``created``: seconds since the epoch.

    ``details``: the usage tells the cached tokens.
    """

    request_id: str
    created: int
    model: str
    details: bool = False


def chunk(event: bytes) -> bytes:
    """Return ``event`` as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(event), event)


def make_reply(
    generation: Generation, identity: Identity, script: Script, connection: Connection
) -> Reply:
    """Return the reply that a generation asks for; ``script`` knows what it says."""
    answer = Answer(generation, identity, script)
    if generation.stream:
        return StreamReply(answer, generation, connection)
    return WholeReply(answer, connection)


class Answer:
    """Writes the JSON of one generation."""

    def __init__(self, generation: Generation, identity: Identity, script: Script) -> None:
        self._prompt_tokens = generation.prompt_tokens
        self._prompt = generation.prompt if generation.return_token_ids else None
        self._script = script
        self._chat = generation.kind == "chat"
        self._details = identity.details
        prefix = "chatcmpl" if self._chat else "cmpl"
        kind = "chat.completion" if self._chat else "text_completion"
        self._id = f"{prefix}-{identity.request_id}"
        self._created = identity.created
        self._model = identity.model
        self._kind = kind
        self._chunk_kind = f"{kind}.chunk" if self._chat else kind
        self._head = _json(self._fields(self._chunk_kind))[:-1]

    def role_event(self, *, usage: bool) -> bytes:
        """Return chat's first event: a role and no output."""
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
        usage_text = self._continuous(0) if usage else ""
        text = f'{self._head},"choices":[{_json(choice)}]{usage_text}'
        prompt = _json(self._prompt)
        return f'data: {text},"prompt_token_ids":{prompt},"prompt_text":null}}\n\n'.encode()

    def token_event(
        self, tokens: int, finish: Finish | None, *, usage: bool, new: int = 1
    ) -> bytes:
        """Return the event of the last ``new`` of ``tokens``. The hot path: text, not objects."""
        text = self._script.text(tokens - new, tokens)
        reason = f'"{finish}"' if finish else "null"
        if self._chat:
            stop = ',"stop_reason":null' if finish else ""
            choice = (
                f'"delta":{{"content":"{text}"}},"logprobs":null,"finish_reason":{reason}{stop}'
            )
        else:
            prompt = _json(self._prompt) if self._prompt and tokens == new else "null"
            choice = (
                f'"text":"{text}","logprobs":null,"finish_reason":{reason},"stop_reason":null,'
                f'"prompt_token_ids":{prompt}'
            )
        usage_text = self._continuous(tokens) if usage else ""
        ids = _json(self._script.ids(tokens - new, tokens)) if self._prompt else "null"
        return (
            f'data: {self._head},"choices":[{{"index":0,{choice},"token_ids":{ids}}}]'
            f"{usage_text}}}\n\n"
        ).encode()

    def usage_event(self, tokens: int, cached: int) -> bytes:
        """Return the event with no choice that tells the usage."""
        usage: dict[str, Any] = self._counts(tokens)
        if self._details:
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        rest = _json({"choices": [], "usage": usage, "system_fingerprint": FINGERPRINT})
        return f"data: {self._head},{rest[1:]}\n\n".encode()

    def document(self, tokens: int, finish: Finish, cached: int) -> bytes:
        """Return the whole answer as one JSON document."""
        text = self._script.text(0, tokens)
        choice: dict[str, Any] = {"index": 0}
        if self._chat:
            choice["message"] = {
                "role": "assistant", "content": text, "refusal": None, "annotations": None,
                "audio": None, "function_call": None, "reasoning": None,
            }  # fmt: skip
        else:
            choice["text"] = text
        choice |= {"logprobs": None, "finish_reason": finish, "stop_reason": None}
        choice["token_ids"] = self._script.ids(0, tokens) if self._prompt else None
        if not self._chat:
            choice |= {"prompt_logprobs": None, "prompt_token_ids": self._prompt}
        choice["routed_experts"] = None
        usage = self._counts(tokens) | {
            "prompt_tokens_details": {"cached_tokens": cached} if self._details else None,
            "completion_tokens_details": None,
        }
        ending: dict[str, Any] = {
            "choices": [choice],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": usage,
        }
        if self._chat and self._prompt:
            ending |= {"prompt_logprobs": None, "prompt_token_ids": self._prompt}
        return _json(self._fields(self._kind) | ending).encode()

    def _fields(self, kind: str) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model,
        }

    def _counts(self, tokens: int) -> dict[str, Any]:
        return {
            "prompt_tokens": self._prompt_tokens,
            "total_tokens": self._prompt_tokens + tokens,
            "completion_tokens": tokens,
        }

    def _continuous(self, tokens: int) -> str:
        prompt = self._prompt_tokens
        details = ',"completion_tokens_details":null' if self._chat else ""
        return (
            f',"usage":{{"prompt_tokens":{prompt},"total_tokens":{prompt + tokens},'
            f'"completion_tokens":{tokens}{details}}}'
        )


class StreamReply:
    """Sends tokens when they exist, those of one step together; chat's role goes first."""

    def __init__(self, answer: Answer, generation: Generation, connection: Connection) -> None:
        self._answer = answer
        self._chat = generation.kind == "chat"
        self._usage = generation.continuous_usage
        self._final_usage = generation.final_usage
        self._connection = connection

    def render(self, tokens: int, new: int, finish: Finish | None, cached: int) -> bytes:
        """Return the chunks to send when there are ``tokens``, the last ``new`` of them new."""
        answer = self._answer
        data = chunk(answer.token_event(tokens, finish, usage=self._usage, new=new))
        if self._chat and tokens == new:
            data = chunk(answer.role_event(usage=self._usage)) + data
        if finish is None:
            return data
        if self._final_usage:
            data += chunk(answer.usage_event(tokens, cached))
        return data + chunk(DONE) + LAST_CHUNK

    def send(self, data: bytes, *, last: bool) -> None:
        """Write to the stream; the last frees the connection for the next request."""
        self._connection.send(data, last=last)


class WholeReply:
    """Sends everything once the last token exists."""

    def __init__(self, answer: Answer, connection: Connection) -> None:
        self._answer = answer
        self._connection = connection

    def render(self, tokens: int, new: int, finish: Finish | None, cached: int) -> bytes:  # noqa: ARG002 - Reply's signature
        """Return the document with the last token, and nothing before."""
        return b"" if finish is None else self._answer.document(tokens, finish, cached)

    def send(self, data: bytes, *, last: bool) -> None:
        """Respond with the document when it is there."""
        if last:
            self._connection.respond(200, data, "application/json")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
