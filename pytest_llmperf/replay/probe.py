"""Ask a server a traffic's first prompts, to see what it answers rather than how fast.

Greedy and one at a time, so that neither sampling nor batching changes an answer; without a
stream, since nothing is timed; each with a salt of its own, so that none rests on another's
cached blocks.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_llmperf import http
from pytest_llmperf.errors import LlmPerfError
from pytest_llmperf.model.answers import Answer, Answers
from pytest_llmperf.model.traffic import ENDPOINTS, Request, Traffic
from pytest_llmperf.replay.wire import request_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_llmperf.model.launch import Target

PROMPTS = 4
TOKENS = 16
REFUSED = (400, 422)
LENGTHS = ("max_tokens", "max_completion_tokens")
LEFT_OUT = frozenset(
    (
        # A stream, more tokens or more answers than are asked.
        *("stream", "stream_options", "min_tokens", "n", "best_of"),
        *("use_beam_search", "length_penalty", "early_stopping"),
        # Ends an answer before it has said anything, or one that repeats itself.
        *("stop", "stop_token_ids", "repetition_detection", "thinking_token_budget"),
        # Hides what was generated, or adds what was not.
        *("include_reasoning", "echo", "skip_special_tokens", "include_stop_str_in_output"),
        # Forces answers into a form: 16 tokens of it may be blanks, or nothing once parsed.
        *("response_format", "structured_outputs", "grammar", "json_schema", "regex", "ebnf"),
        *("tools", "tool_choice", "functions", "function_call", "parallel_tool_calls"),
        # Changes a greedy answer: forces one token, or forbids repeating it.
        *("logit_bias", "allowed_token_ids", "bad_words", "logits_processors", "vllm_xargs"),
        *("custom_logit_processor", "custom_params", "watermarking"),
        *("repetition_penalty", "presence_penalty", "frequency_penalty"),
    )
)
"""What of a replay's body, mostly from ``extra_body``, would tell of itself and not of the engine.

What shapes the prompt (a chat template and what goes to it) and what only a proxy reads stays."""
GUIDED = "guided_"
"""How older names of what forces a form begin."""


class _NoAnswerError(LlmPerfError):
    """The server answered, but not with a generation."""


def probe(
    traffic: Traffic,
    target: Target,
    *,
    salt: str,
    random_weights: bool = False,
    timeout: float = 60.0,
    watch: Callable[[], None] | None = None,
) -> Answers:
    """Return what ``target`` answers to the first prompts of ``traffic``, 16 tokens of each.

    The bodies are the replay's own, at temperature 0 and without what ends, hides or bends an
    answer (``LEFT_OUT``). ``random_weights`` is passed on.
    ``timeout`` is in seconds for each answer. What cannot be had is told in the result's
    ``error`` and ends the probe; ``watch`` is called before every request and after one that
    failed, and raises if the server is gone.
    """
    look = watch or (lambda: None)
    answers: list[Answer] = []
    path = ENDPOINTS[traffic.spec.endpoint]
    headers = {name: str(value) for name, value in traffic.spec.headers}
    for body in _bodies(traffic, target, salt):
        look()
        try:
            answers.append(_ask(target, path, body, timeout, headers))
        except (LlmPerfError, ValueError) as error:  # ValueError: half a character in a prompt
            look()
            return Answers(tuple(answers), random_weights, str(error))
    return Answers(tuple(answers), random_weights)


def _bodies(traffic: Traffic, target: Target, salt: str) -> Iterator[dict[str, Any]]:
    """Yield what to post for each prompt: the replay's body, made greedy, short and whole."""
    spec = replace(traffic.spec, temperature=0.0, sampling=())
    first = [request for request in traffic.requests if request.prompt.after is None][:PROMPTS]
    for number, request in enumerate(first):
        prompt = replace(request.prompt, output_tokens=TOKENS)
        alone = Traffic(spec, (Request(0, 0, prompt),))
        (sent,) = request_bytes(alone, target, f"{salt}-{number}")
        body: dict[str, Any] = json.loads(sent.partition(b"\r\n\r\n")[2])
        kept = {name: value for name, value in body.items() if not _is_left_out(name)}
        lengths = {name: TOKENS for name in LENGTHS if name in kept}  # extra_body may say another
        yield kept | lengths | {"temperature": 0.0, "return_token_ids": True}


def _is_left_out(name: str) -> bool:
    return name in LEFT_OUT or name.startswith(GUIDED)


def _ask(
    target: Target, path: str, body: dict[str, Any], timeout: float, headers: dict[str, str]
) -> Answer:
    answer = http.post(target, path, body, timeout, headers)
    if answer.status in REFUSED:  # not every server passes over what it does not know
        plain = {name: value for name, value in body.items() if name != "return_token_ids"}
        answer = http.post(target, path, plain, timeout, headers)
    whole = answer.json()
    choices = whole.get("choices") if isinstance(whole, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if answer.status != http.OK or not isinstance(choice, dict):
        said = " ".join(answer.text.split())[: http.EXCERPT] or "an empty answer"
        raise _NoAnswerError(f"POST {target.base_url}{path} answered {answer.status}: {said}")
    finish = choice.get("finish_reason")
    return Answer(_text(choice), _token_ids(choice), finish if isinstance(finish, str) else None)


def _text(choice: dict[str, Any]) -> str:
    """Return all that was generated: reasoning and calls of tools are answers too."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return str(choice.get("text") or "")
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    parts = [str(part) for part in (reasoning, message.get("content")) if part]
    parts += [json.dumps(call, sort_keys=True) for call in message.get("tool_calls") or ()]
    return "".join(parts)


def _token_ids(choice: dict[str, Any]) -> tuple[int, ...] | None:
    ids = choice.get("token_ids")
    if not isinstance(ids, list) or not all(isinstance(one, int) for one in ids):
        return None
    return tuple(ids)
