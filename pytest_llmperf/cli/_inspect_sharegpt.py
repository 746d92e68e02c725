"""A whole file of conversations in one of ShareGPT's forms: how many, whose turns, which lengths.

A replay's traffic is drawn from one exchange a conversation, a prompt and its answer; here all
that is whole is looked at, and it is said how much of it the filter of lengths leaves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_llmperf.cli._inspect_lengths import Lengths
from pytest_llmperf.datasets._conversation_files import Whole, read_whole
from pytest_llmperf.datasets._conversations import Exchange, exchange_of, role_of, turns_of
from pytest_llmperf.datasets.sharegpt import ShareGptOptions, file_of, read_options
from pytest_llmperf.errors import DatasetError

if TYPE_CHECKING:
    from pytest_llmperf.model.traffic import Tokenizer, TrafficSpec


@dataclass
class Conversations:
    """What a file holds, filled as it is read.

    ``exchanges``: one of each conversation that has one and is text alone.
    """

    options: ShareGptOptions
    turns: Counter[int] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
    exchanges: list[Exchange] = field(default_factory=list)
    not_text: int = 0

    def add(self, record: Any) -> None:
        """Count one record, whatever it is."""
        _, turns = turns_of(record)
        self.turns[len(turns)] += 1
        self.roles.update(role_of(turn) for turn in turns)
        for exchange in exchange_of(record, by_role=self.options.by_role):
            if exchange is None:
                self.not_text += 1
            else:
                self.exchanges.append(exchange)


def read(spec: TrafficSpec) -> tuple[Whole, Conversations]:
    """Read a recipe's file as a stream, as far as it is whole.

    Raise DatasetError for one that cannot be read, or holds no exchange.
    """
    found = Conversations(read_options(spec))
    file = read_whole("sharegpt", file_of(found.options.path), found.add)
    if not found.exchanges:
        raise DatasetError(
            f"sharegpt: none of the {file.records:,} records of {file.path} has two turns of text; "
            "conversations in one of ShareGPT's forms are needed"
        )
    return file, found


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


def overview(file: Whole, found: Conversations, lengths: Lengths) -> dict[str, Any]:
    """Return what is to be known beside lengths."""
    turns = sum(count * many for count, many in found.turns.items())
    dropped = left_out(lengths, found.options)
    return {
        "file": str(file.path),
        "bytes": file.path.stat().st_size,
        "conversations": file.records,
        "turns": turns,
        "turns a conversation": round(turns / file.records, 2),
        "most turns": max(found.turns),
        "roles": dict(found.roles.most_common()),
        "with an exchange": len(found.exchanges),
        "usable": len(found.exchanges) - sum(dropped.values()),
        "left out by the filter": dropped,
    }


def notes(file: Whole, found: Conversations) -> tuple[str, ...]:
    """Return what a reader must know of the file and of what was counted."""
    counted = (
        "lengths are those of every exchange (a prompt and its answer, one a conversation); a "
        "replay draws from the usable ones, see --num-prompts"
    )
    return (*file.notes(found.not_text, why=True), counted)
