"""The bytes of a request: HTTP/1.1 to the completions or the chat endpoint of a server.

Every body asks for a stream, and for the server's own token counts on each chunk
(``stream_options.continuous_usage_stats``, vLLM's; others ignore it and count at the end).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.traffic import (
    ENDPOINTS,
    Content,
    Request,
    Traffic,
    TrafficSpec,
    thaw,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_llmperf.model.launch import Target

STREAM_OPTIONS = {"include_usage": True, "continuous_usage_stats": True}


def request_bytes(traffic: Traffic, target: Target, salt: str | None) -> Iterator[bytes]:
    """Yield what to write for each request of ``traffic``, in order.

    ``salt`` goes into each body as ``cache_salt``, which keeps the blocks that vLLM caches
    for one replay apart from those of another. Raise SpecError for what cannot be sent.
    """
    head = _head(traffic.spec, target)
    options = _options(traffic.spec, target, salt)
    extra = thaw(traffic.spec.extra_body)
    for request in traffic.requests:
        body = json.dumps({**_prompt(traffic.spec, request), **options, **extra}).encode()
        yield b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)


def _head(spec: TrafficSpec, target: Target) -> bytes:
    host = f"[{target.host}]" if ":" in target.host else target.host
    fields = {
        "Host": f"{host}:{target.port}",
        "User-Agent": "pytest-llmperf",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
    }
    if target.api_key is not None:
        fields["Authorization"] = f"Bearer {target.api_key}"
    for name, value in spec.headers:
        for known in [known for known in fields if known.lower() == name.lower()]:
            del fields[known]
        fields[name] = str(value)
    lines = [f"POST {target.prefix}{ENDPOINTS[spec.endpoint]} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    for line in lines:
        if not line.isprintable() or not line.isascii():
            name = line.partition(":")[0]
            raise SpecError(
                f"traffic {spec.name!r}: header {name!r} holds a character that HTTP does not "
                "carry; use printable ASCII"
            )
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def _options(spec: TrafficSpec, target: Target, salt: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "model": target.model,
        "temperature": spec.temperature,
        "stream": True,
        "stream_options": STREAM_OPTIONS,
    }
    if spec.ignore_eos:
        options["ignore_eos"] = True
    if spec.stop:
        options["stop"] = list(spec.stop)
    if salt is not None:
        options["cache_salt"] = salt
    return options | thaw(spec.sampling)


def _prompt(spec: TrafficSpec, request: Request) -> dict[str, Any]:
    """Return the prompt and the output length, under the names that ``vllm bench serve`` sends."""
    content, tokens = request.prompt.content, request.prompt.output_tokens
    messages = _messages(content)
    if spec.endpoint == "completions":
        if messages is not None:
            raise _not_taken(spec, "messages", "use endpoint='chat'")
        return {"prompt": content, "max_tokens": tokens}
    if isinstance(content, str):
        messages = [{"role": "user", "content": content}]
    if messages is None:
        raise _not_taken(spec, "token ids", "use endpoint='completions'")
    return {"messages": messages, "max_completion_tokens": tokens}


def _messages(content: Content) -> list[dict[str, str]] | None:
    """Return the messages that a content is made of, None where it is a text or token ids."""
    if isinstance(content, str) or not content or not isinstance(content[0], tuple):
        return None
    return [{"role": role, "content": text} for role, text in content]


def _not_taken(spec: TrafficSpec, what: str, instead: str) -> SpecError:
    return SpecError(
        f"traffic {spec.name!r}: dataset {spec.dataset!r} makes prompts of {what}, which the "
        f"{spec.endpoint} endpoint does not take; {instead}"
    )
