"""Talking to a server off the hot path: is it ready, what does it serve, what does it count.

The only importer of httpx. Proxies of the environment are never used: what is measured is a
server, not the way to it.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import httpx

from pytest_llmperf.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_llmperf.model.launch import Target

OK = 200
NOT_FOUND = 404
NOT_ALLOWED = 405
SERVER_ERRORS = 500
EXCERPT = 300
"""Characters of an unexpected answer that a message quotes."""

REMEMBERED = 4096
"""Texts whose count a tokenizer keeps: a system prompt is asked for once."""


class NoAnswerError(ServerError):
    """Nothing came back: refused, cut off or too slow."""


class BusyError(ServerError):
    """The server answered that it cannot serve now (a status of 500 or more)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    text: str

    def json(self) -> Any:
        """Return the body as JSON, or None where it is none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None


def get(target: Target, path: str, timeout: float = 5.0) -> Answer:
    """Return the answer to a GET of ``path`` below the target's prefix.

    ``timeout`` is in seconds, for every step of the exchange. Raise NoAnswerError where
    nothing comes back.
    """
    return _exchange(target, "GET", path, None, timeout)


def post(
    target: Target,
    path: str,
    body: Mapping[str, Any],
    timeout: float = 60.0,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Return the answer to a POST of ``body`` as JSON. Errors as for ``get``.

    ``headers`` are sent beside, or in place of, our own.
    """
    return _exchange(target, "POST", path, body, timeout, headers)


def health(target: Target, timeout: float = 2.0) -> int | None:
    """Return the status of ``/health``, None where nothing comes back."""
    try:
        return get(target, "/health", timeout).status
    except NoAnswerError:
        return None


def models(target: Target, timeout: float = 10.0) -> tuple[Mapping[str, Any], ...]:
    """Return the entries of ``/v1/models``, the server's own model first.

    Empty where the server has no such list. Raise ServerError for any other answer.
    """
    answer = get(target, "/v1/models", timeout)
    if answer.status in (NOT_FOUND, NOT_ALLOWED):
        return ()
    body = answer.json()
    entries = body.get("data") if isinstance(body, dict) else None
    if answer.status != OK or not isinstance(entries, list):
        raise _unexpected(target, "GET /v1/models", answer)
    return tuple(entry for entry in entries if isinstance(entry, dict) and "id" in entry)


def complete(target: Target, timeout: float = 60.0) -> None:
    """Have one token generated, through completions or, where there are none, chat.

    Raise NoAnswerError where nothing comes back, BusyError for a status of 500 or more, and
    ServerError for any other answer that is no success.
    """
    limits = {"model": target.model, "max_tokens": 1, "temperature": 0.0}
    answer = post(target, "/v1/completions", {**limits, "prompt": "Hello"}, timeout)
    what = "POST /v1/completions"
    if answer.status in (NOT_FOUND, NOT_ALLOWED):
        message = {"role": "user", "content": "Hello"}
        answer = post(target, "/v1/chat/completions", {**limits, "messages": [message]}, timeout)
        what = "POST /v1/chat/completions"
    if answer.status != OK:
        raise _unexpected(target, what, answer)


def metrics(target: Target, timeout: float = 10.0) -> str | None:
    """Return the text of ``/metrics``, None where the server has none."""
    answer = get(target, "/metrics", timeout)
    return answer.text if answer.status == OK else None


def token_count(target: Target, text: str, timeout: float = 60.0) -> int | None:
    """Return how many tokens the server makes of ``text`` (``/tokenize``), special ones included.

    None where the server has no such endpoint. Half of a surrogate pair, which no JSON reader
    takes, counts as what it is shown as. Raise ServerError for any other answer.
    """
    prompt = text.encode(errors="surrogatepass").decode(errors="replace")
    body = {"model": target.model, "prompt": prompt, "add_special_tokens": True}
    answer = post(target, "/tokenize", body, timeout)
    if answer.status in (NOT_FOUND, NOT_ALLOWED):
        return None
    told = answer.json()
    count = told.get("count") if isinstance(told, dict) else None
    if answer.status != OK or not isinstance(count, int):
        raise _unexpected(target, "POST /tokenize", answer)
    return count


class ServerTokenizer:
    """Counts a text's tokens by asking a running server, whose model's name is in ``name``."""

    def __init__(self, target: Target, remembered: int = REMEMBERED) -> None:
        self.name = f"server: {target.model}"
        self._target = target
        self._known = lru_cache(remembered)(self._ask)

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``; raise ServerError where it cannot be had."""
        return self._known(text)

    def _ask(self, text: str) -> int:
        count = token_count(self._target, text)
        if count is None:
            raise ServerError(
                f"{self._target.base_url} has no /tokenize and cannot count tokens; name a folder "
                "that holds the model's tokenizer.json instead"
            )
        return count


def server_tokenizer(target: Target) -> ServerTokenizer | None:
    """Return what counts by asking the server, None where it does not answer such questions.

    Raise NoAnswerError where nothing comes back.
    """
    tokenizer = ServerTokenizer(target)
    try:
        tokenizer.count("Hello")
    except NoAnswerError:
        raise
    except ServerError:
        return None
    return tokenizer


def _exchange(
    target: Target,
    method: str,
    path: str,
    body: Mapping[str, Any] | None,
    timeout: float,
    more: Mapping[str, str] | None = None,
) -> Answer:
    headers = httpx.Headers({"Authorization": f"Bearer {target.api_key}"} if target.api_key else {})
    headers.update(more or {})
    # Plain HTTP alone: a context without roots costs nothing to make and would trust nobody.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        with httpx.Client(trust_env=False, verify=context, timeout=timeout) as client:
            answer = client.request(method, target.base_url + path, headers=headers, json=body)
            return Answer(answer.status_code, answer.text)
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise NoAnswerError(f"{method} {target.base_url}{path}: {reason}") from error


def _unexpected(target: Target, what: str, answer: Answer) -> ServerError:
    kind = BusyError if answer.status >= SERVER_ERRORS else ServerError
    text = " ".join(answer.text.split())[:EXCERPT] or "an empty answer"
    return kind(f"{what} at {target.base_url} answered {answer.status}: {text}")
