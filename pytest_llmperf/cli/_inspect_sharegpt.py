"""A whole file of conversations in one of ShareGPT's forms: how many, whose turns, which lengths.

A replay's traffic is drawn from one exchange a conversation, a prompt and its answer; here all
that is whole is looked at, and it is said how much of it the filter of lengths leaves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmperf.cli._inspect_lengths import Lengths
from pytest_llmperf.datasets._conversations import (
    CutOffError,
    Exchange,
    exchange_of,
    records,
    role_of,
    turns_of,
)
from pytest_llmperf.datasets._files import opened
from pytest_llmperf.datasets.sharegpt import ShareGptOptions, file_of, read_options
from pytest_llmperf.errors import DatasetError

if TYPE_CHECKING:
    from pytest_llmperf.model.traffic import Tokenizer, TrafficSpec


@dataclass
class Conversations:
    """What a file holds, filled as it is read.

    ``exchanges``: one of each conversation that has one and is text alone. ``complaint``: why
    reading ended early.
    """

    path: Path
    options: ShareGptOptions
    whole: int = 0
    turns: Counter[int] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
    exchanges: list[Exchange] = field(default_factory=list)
    not_text: int = 0
    complaint: str | None = None

    def add(self, record: Any) -> None:
        """Count one record, whatever it is."""
        self.whole += 1
        _, turns = turns_of(record)
        self.turns[len(turns)] += 1
        self.roles.update(role_of(turn) for turn in turns)
        for exchange in exchange_of(record, by_role=self.options.by_role):
            if exchange is None:
                self.not_text += 1
            else:
                self.exchanges.append(exchange)


def read(spec: TrafficSpec) -> Conversations:
    """Read a recipe's file as a stream, as far as it is whole.

    Raise DatasetError for one that cannot be read, or holds no exchange.
    """
    options = read_options(spec)
    found = Conversations(file_of(options.path), options)
    with opened("sharegpt", found.path) as file:
        try:
            for record in records("sharegpt", found.path, file):
                found.add(record)
        except CutOffError as error:
            found.complaint = str(error)
    if not found.exchanges:
        why = f" ({found.complaint})" if found.complaint else ""
        raise DatasetError(
            f"sharegpt: {found.path} holds {found.whole:,} whole records and none of them two "
            f"turns of text; conversations in one of ShareGPT's forms are needed{why}"
        )
    return found


def lengths_of(found: Conversations, tokenizer: Tokenizer, *, chat: bool) -> Lengths:
    """Count every exchange as a replay of it would: on the chat endpoint with its system turn."""
    prompts, outputs = [], []
    for exchange in found.exchanges:
        tokens = tokenizer.count(exchange.prompt)
        if chat and exchange.system is not None:
            tokens += tokenizer.count(exchange.system)
        prompts.append(tokens)
        outputs.append(found.options.output_len or tokenizer.count(exchange.answer))
    return Lengths(prompts, outputs)


def left_out(lengths: Lengths, options: ShareGptOptions) -> dict[str, int]:
    """Return how many exchanges the filter of lengths drops, by the first reason that holds."""
    reasons: Counter[str] = Counter()
    for prompt, output in zip(lengths.prompt, lengths.output, strict=True):
        if options.allows(prompt, output):
            continue
        if prompt < options.min_len:
            reason = f"prompt shorter than {options.min_len}"
        elif prompt > options.max_prompt_len:
            reason = f"prompt longer than {options.max_prompt_len:,}"
        elif prompt + output > options.max_total_len:
            reason = f"both longer than {options.max_total_len:,}"
        else:
            reason = f"output shorter than {options.min_len}"
        reasons[reason] += 1
    return dict(sorted(reasons.items()))


def overview(found: Conversations, lengths: Lengths) -> dict[str, Any]:
    """Return what is to be known beside lengths."""
    turns = sum(count * many for count, many in found.turns.items())
    dropped = left_out(lengths, found.options)
    return {
        "file": str(found.path),
        "bytes": found.path.stat().st_size,
        "conversations": found.whole,
        "turns": turns,
        "turns a conversation": round(turns / found.whole, 2),
        "most turns": max(found.turns),
        "roles": dict(found.roles.most_common()),
        "with an exchange": len(found.exchanges),
        "usable": len(found.exchanges) - sum(dropped.values()),
        "left out by the filter": dropped,
    }


def notes(found: Conversations) -> tuple[str, ...]:
    """Return what a reader must know of the file and of what was counted."""
    name = found.path.name
    said = []
    if found.complaint is not None:
        said.append(
            f"{name} is cut off after {found.whole:,} whole conversations ({found.complaint}); "
            "what follows is left out"
        )
    if found.not_text:
        said.append(f"{found.not_text:,} conversations of {name} are not text alone: left out")
    said.append(
        "lengths are those of every exchange (a prompt and its answer, one a conversation); a "
        "replay draws from the usable ones, see --num-prompts"
    )
    return tuple(said)
