"""TrafficSpec, the recipe, and Traffic, the requests made from it with their digest."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict

from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.pairs import Json, Pairs, freeze, thaw, told_apart
from pytest_llmperf.model.server import check_name

__all__ = [
    "ENDPOINTS",
    "OURS",
    "PAIRS",
    "Content",
    "Json",
    "Message",
    "Pairs",
    "Prompt",
    "Request",
    "Tokenizer",
    "Traffic",
    "TrafficOptions",
    "TrafficSpec",
    "freeze",
    "thaw",
    "traffic_digest",
]

ENDPOINTS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
OURS = {
    "model": "the server's",
    "prompt": "the dataset's",
    "messages": "the dataset's",
    "max_tokens": "the dataset's output length",
    "max_completion_tokens": "the dataset's output length",
    "stream": "always on",
    "stream_options": "what the figures are counted by",
    "n": "one answer a request",
    "cache_salt": "fresh for every replay",
    "temperature": "set by temperature=",
    "ignore_eos": "set by ignore_eos=",
    "stop": "set by stop=",
}
"""What ``sampling`` may not set, and who does. ``extra_body`` may: it is there to override."""

MOST_PROMPTS = 10_000_000
"""Requests of one traffic: all of them are held in memory."""

PAIRS = ("dataset_options", "arrival_options", "sampling", "extra_body", "headers")
"""The fields of a :class:`TrafficSpec` that are mappings, held as :data:`Pairs`."""
Message = tuple[str, str]
"""(role, text) of one message of a conversation, for the chat endpoint."""
Content = str | tuple[int, ...] | tuple[Message, ...]
"""A text, token ids, or the messages of a conversation."""


class TrafficOptions(TypedDict, total=False):
    """What every dataset's constructor takes beside its own options.

    ``request_rate`` is in requests a second (``inf``: all at once; of a dataset of
    conversations: in conversations a second); with ``max_concurrency`` alone the load is a
    closed loop, with both the arrivals wait in the client when that many requests are in
    flight, as in ``vllm bench serve``. ``arrival`` names a module of
    ``pytest_llmperf.arrivals`` and ``arrival_options`` go to it. ``max_error_rate`` is the
    share of failed or incomplete requests above which a replay is INVALID (default: none).
    ``stop`` are texts that end an answer (with ``ignore_eos=False`` only: forced lengths are
    what makes two servers comparable) and ``sampling`` what else the server samples by
    (``{"top_p": 0.9, "seed": 1}``).
    ``num_warmups`` requests are sent and discarded before the first replay of a launch
    (default: as many as run at once).
    """

    num_prompts: int
    seed: int
    request_rate: float
    max_concurrency: int | None
    arrival: str
    arrival_options: Mapping[str, Any]
    endpoint: str
    temperature: float
    ignore_eos: bool
    stop: Sequence[str]
    sampling: Mapping[str, Any]
    extra_body: Mapping[str, Any]
    headers: Mapping[str, str]
    max_error_rate: float
    num_warmups: int | None


@dataclass(frozen=True, slots=True)
class TrafficSpec:
    """A named recipe. Equal recipes make byte-identical traffic in any process."""

    name: str
    dataset: str
    dataset_options: Pairs = ()
    num_prompts: int = 100
    seed: int = 0
    request_rate: float = math.inf
    max_concurrency: int | None = None
    arrival: str = "poisson"
    arrival_options: Pairs = ()
    endpoint: str = "completions"
    temperature: float = 0.0
    ignore_eos: bool = True
    stop: tuple[str, ...] = ()
    sampling: Pairs = ()
    extra_body: Pairs = field(default=(), repr=False)
    headers: Pairs = field(default=(), repr=False)
    max_error_rate: float = 0.0
    num_warmups: int | None = None

    def __post_init__(self) -> None:
        check_name("traffic", self.name)
        rules = (
            (
                isinstance(self.num_prompts, int) and self.num_prompts >= 1,
                f"num_prompts is {self.num_prompts!r}, not a number of at least 1",
            ),
            (
                not isinstance(self.num_prompts, int) or self.num_prompts <= MOST_PROMPTS,
                f"num_prompts is {self.num_prompts!r}, at most {MOST_PROMPTS:,} are possible",
            ),
            (
                0 <= self.seed < 2**32,
                f"seed is {self.seed}, not between 0 and 2**32 - 1 (what numpy takes)",
            ),
            (self.request_rate > 0, f"request_rate is {self.request_rate}, not above 0"),
            (
                self.max_concurrency is None or self.max_concurrency >= 1,
                f"max_concurrency is {self.max_concurrency}, at least 1 is needed",
            ),
            (
                self.endpoint in ENDPOINTS,
                f"endpoint is {self.endpoint!r}, known: {', '.join(sorted(ENDPOINTS))}",
            ),
            (
                0 <= self.max_error_rate <= 1,
                f"max_error_rate is {self.max_error_rate}, not a share between 0 and 1",
            ),
            (
                not (self.stop and self.ignore_eos),
                "stop= needs ignore_eos=False: with forced lengths nothing may end an answer early",
            ),
            *(
                (key not in OURS, f"sampling= may not set {key!r}, which is {OURS.get(key)}")
                for key, _ in self.sampling
            ),
            (
                self.num_warmups is None or self.num_warmups >= 0,
                f"num_warmups is {self.num_warmups}, not a count",
            ),
        )
        for holds, complaint in rules:
            if not holds:
                raise SpecError(f"traffic {self.name!r}: {complaint}")

    @classmethod
    def of(
        cls, name: str, dataset: str, dataset_options: Mapping[str, Any], options: TrafficOptions
    ) -> TrafficSpec:
        """Build one from a constructor's own options and the common ones."""
        unknown = set(options) - set(TrafficOptions.__annotations__)
        if unknown:
            raise SpecError(
                f"traffic {name!r}: unknown option {min(unknown)!r}. Known: "
                f"{', '.join(sorted([*dataset_options, *TrafficOptions.__annotations__]))}"
            )
        values: dict[str, Any] = dict(options)
        for key in PAIRS:
            if key in values:
                values[key] = _pairs(name, key, values[key])
        if "stop" in values:
            stop = values["stop"]
            values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
        own = _pairs(name, "dataset_options", dataset_options)
        return cls(name, dataset, own, **values)

    @property
    def warmups(self) -> int:
        """Requests sent and discarded first: as many as run at once, 32 where none is said."""
        if self.num_warmups is not None:
            return self.num_warmups
        return min(self.num_prompts, self.max_concurrency or 32)


def _pairs(traffic: str, option: str, given: Any) -> Pairs:
    """Return a mapping frozen; raise SpecError, without its values, for what is no JSON."""
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise SpecError(f"traffic {traffic!r}: {option} is a {kind}, not a mapping")
    for key, value in given.items():
        if not isinstance(key, str):
            raise SpecError(f"traffic {traffic!r}: {option} has the name {key!r}, not a string")
        try:
            json.dumps(value, sort_keys=True)
        except (TypeError, ValueError, RecursionError) as error:
            raise SpecError(
                f"traffic {traffic!r}: {option} {key!r} cannot be written as JSON ({error}); give "
                "texts, numbers, True, False, None, and lists and mappings of them"
            ) from None
    return freeze(given)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a dataset gives: what to send, and how many tokens to ask for.

    ``prompt_tokens`` is a count by a tokenizer or an estimate; the figures use the server's.
    A later turn of a conversation has ``after``, the index of the prompt whose answer must be
    complete before it, and is due ``think_ns`` after that. It holds the same text whatever was
    answered: fixed traffic is fixed.
    """

    content: Content
    prompt_tokens: int
    output_tokens: int
    after: int | None = None
    think_ns: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt with its place in the schedule.

    ``due_ns`` counts from the replay's start; where ``prompt.after`` names another request it
    is 0 and the request is due ``prompt.think_ns`` after the end of that one's answer.
    """

    index: int
    due_ns: int
    prompt: Prompt


@dataclass(frozen=True)
class Traffic:
    """The requests of one recipe. ``counted_by`` names what counted the datasets' tokens."""

    spec: TrafficSpec
    requests: tuple[Request, ...]
    counted_by: str = "none"
    notes: tuple[str, ...] = ()
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        for place, request in enumerate(self.requests):
            after = request.prompt.after
            if after is not None and not (0 <= after < place and request.prompt.think_ns >= 0):
                raise SpecError(
                    f"traffic {self.spec.name!r}: prompt {place} waits {request.prompt.think_ns} ns "
                    f"after the answer to prompt {after}; it can wait for an earlier one, and 0 ns "
                    f"or more. This is a mistake in dataset {self.spec.dataset!r}"
                )
        object.__setattr__(self, "digest", traffic_digest(self.spec, self.requests))

    @property
    def offered_rate(self) -> float | None:
        """Requests scheduled a second; None where all are due at once, or wait for answers."""
        if any(request.prompt.after is not None for request in self.requests):
            return None
        span = self.requests[-1].due_ns - self.requests[0].due_ns if self.requests else 0
        return (len(self.requests) - 1) / (span / 1e9) if span > 0 else None


def traffic_digest(spec: TrafficSpec, requests: tuple[Request, ...]) -> str:
    """Return 16 hex digits of a SHA-256 over everything that reaches the server, and when."""
    sha = hashlib.sha256()
    head: dict[str, Any] = {
        "max_concurrency": spec.max_concurrency,
        "endpoint": spec.endpoint,
        "temperature": spec.temperature,
        "ignore_eos": spec.ignore_eos,
        "extra_body": told_apart(spec.extra_body),
        "headers": spec.headers,
    }
    # What came later enters where it is used, so that older digests stay what they were.
    head |= {"stop": spec.stop} if spec.stop else {}
    head |= {"sampling": told_apart(spec.sampling)} if spec.sampling else {}
    sha.update(json.dumps(head, sort_keys=True).encode())
    for request in requests:
        prompt = request.prompt
        line = [request.due_ns, prompt.content, prompt.output_tokens]
        line += [] if prompt.after is None else [prompt.after, prompt.think_ns]
        sha.update(json.dumps(line, ensure_ascii=True).encode())
    return sha.hexdigest()[:16]


class Tokenizer(Protocol):
    """Counts a text's tokens. ``name`` says whose count it is."""

    @property
    def name(self) -> str:
        """Whose count it is, as the report shows it."""

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``."""
