"""Prompts of one's own: ``custom``, a file of JSON lines.

One object a line with a ``prompt``, ``prompt_token_ids`` or ``messages``, and the length of
its answer as ``output_tokens`` (``vllm bench serve --dataset-name custom``) or ``output_len``.
For the same file, seed and number of prompts the order, the prompts that come again and the
lengths are those of vLLM's ``CustomDataset`` (0.32) with ``--skip-chat-template``: lines
shuffled by Python's ``random.Random(seed)``, drawn again where they are too few.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Unpack

from pytest_llmperf.datasets import Drawn
from pytest_llmperf.datasets._files import MOST_TOKENS, BadLineError, json_records, path_rule
from pytest_llmperf.datasets._token_ids import COUNTED_BY, owner_of
from pytest_llmperf.errors import DatasetError
from pytest_llmperf.model.options import is_count, options_from, require
from pytest_llmperf.model.traffic import Content, Prompt, Tokenizer, TrafficOptions, TrafficSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

LENGTHS = ("output_tokens", "output_len")
"""The fields that may hold the length of an answer."""


@dataclass(frozen=True, slots=True)
class _Options:
    path: str
    output_len: int | None = None
    default_output_len: int | None = None
    shuffle: bool = True


@dataclass(frozen=True, slots=True)
class _Line:
    """One line: what to send, and how many tokens to ask for."""

    content: Content
    output_tokens: int


def custom(
    name: str,
    *,
    path: str | Path,
    output_len: int | None = None,
    default_output_len: int | None = None,
    shuffle: bool = True,
    **options: Unpack[TrafficOptions],
) -> TrafficSpec:
    """Traffic of the prompts in ``path``, a file of JSON lines.

    ``output_len`` asks for that many tokens of every prompt, in place of what its line says;
    ``default_output_len`` of those whose line says nothing. ``shuffle=False`` keeps the file's
    order. Lines of ``messages`` need ``endpoint="chat"``, lines of ``prompt_token_ids`` the
    completions endpoint. Raise SpecError for values that cannot be.
    """
    own = {
        "path": str(path),
        "output_len": output_len,
        "default_output_len": default_output_len,
        "shuffle": shuffle,
    }
    spec = TrafficSpec.of(name, "custom", own, options)
    _read_options(spec)
    return spec


class Custom:
    """The dataset behind ``custom``."""

    def prompts(self, spec: TrafficSpec, tokenizer: Tokenizer) -> Drawn:
        """Return the lines as prompts; raise DatasetError for a line of no use."""
        options = _read_options(spec)
        path = Path(options.path).expanduser()
        lines = self._lines(spec, options, path)
        missing = spec.num_prompts - len(lines)
        if options.shuffle:
            Random(spec.seed).shuffle(lines)  # noqa: S311  # vLLM's order, no secret
        chosen = lines[: spec.num_prompts]
        prompts = [_prompt(line, tokenizer) for line in chosen]
        again = Random(spec.seed)  # noqa: S311  # vLLM's maybe_oversample_requests, no secret
        prompts += [again.choice(prompts) for _ in range(missing)]
        repeats = (
            f"only {len(lines):,} prompts are in {path.name}: {missing:,} of the "
            f"{spec.num_prompts:,} requests repeat them"
        )
        counted = any(_is_text(line.content) for line in chosen)
        return Drawn(
            tuple(prompts),
            notes=(repeats,) if missing > 0 else (),
            counted_by=tokenizer.name if counted else COUNTED_BY,
        )

    def _lines(self, spec: TrafficSpec, options: _Options, path: Path) -> list[_Line]:
        """Read the file: as far as it is needed, all of it where it is shuffled."""
        lines = []

        def read(record: Mapping[str, Any]) -> _Line:
            return _Line(_content(record, spec.endpoint), _output_tokens(record, options))

        for _, line in json_records("custom", path, read):
            lines.append(line)
            if not options.shuffle and len(lines) == spec.num_prompts:
                break
        if not lines:
            raise DatasetError(f"custom: {path} has no lines; one JSON object a line is needed")
        return lines


def _content(record: Mapping[str, Any], endpoint: str) -> Content:
    """Return what a line asks to send; raise BadLineError saying what is wrong with it."""
    found = [
        name for name in ("prompt", "prompt_token_ids", "messages") if record.get(name) is not None
    ]
    if len(found) != 1:
        raise BadLineError(
            f"has {' and '.join(found) or 'no prompt'}; exactly one of prompt (a text), "
            "prompt_token_ids and messages is needed"
        )
    value = record[found[0]]
    if found == ["prompt"]:
        if not isinstance(value, str) or not value:
            raise BadLineError(f"has a prompt that is no text but {_shown(value)}")
        return value
    if found == ["messages"]:
        if endpoint != "chat":
            raise BadLineError(
                f"has messages, which the {endpoint} endpoint does not take; use chat"
            )
        return _messages(value)
    if endpoint != "completions":
        raise BadLineError(
            f"has prompt_token_ids, which the {endpoint} endpoint does not take; use completions"
        )
    if not (isinstance(value, list) and value and all(is_count(token) for token in value)):
        raise BadLineError(f"has prompt_token_ids that are no list of ids but {_shown(value)}")
    return tuple(value)


def _messages(value: Any) -> tuple[tuple[str, str], ...]:
    """Return (role, text) pairs; raise BadLineError where one is not that."""
    if not isinstance(value, list) or not value:
        raise BadLineError(f"has messages that are no list of messages but {_shown(value)}")
    messages = []
    for place, message in enumerate(value, 1):
        fields = message if isinstance(message, dict) else {}
        role, text = fields.get("role"), fields.get("content")
        if not (isinstance(role, str) and role and isinstance(text, str)):
            raise BadLineError(
                f"has a message ({place} of {len(value)}) without a role and a text as content: "
                f"{_shown(message)}"
            )
        messages.append((role, text))
    return tuple(messages)


def _output_tokens(record: Mapping[str, Any], options: _Options) -> int:
    """Return the tokens to ask for; raise BadLineError where nothing says how many."""
    if options.output_len is not None:
        return options.output_len
    for name in LENGTHS:
        length = record.get(name)
        if length is None:
            continue
        if isinstance(length, float) and length.is_integer():
            length = int(length)  # what pandas writes for a column with gaps
        if not is_count(length, 1):
            raise BadLineError(f"has {name} {_shown(length)}, not a number of at least 1")
        if length > MOST_TOKENS:
            raise BadLineError(f"has {name} {_shown(length)}, more than {MOST_TOKENS:,}")
        return length
    if options.default_output_len is None:
        raise BadLineError(
            f"does not say how long its answer is ({' or '.join(LENGTHS)}); set output_len for "
            "all lines, or default_output_len for those that do not say"
        )
    return options.default_output_len


def _prompt(line: _Line, tokenizer: Tokenizer) -> Prompt:
    """Return the prompt of a line, its tokens counted; those of a chat template are not in."""
    content = line.content
    if isinstance(content, str):
        return Prompt(content, tokenizer.count(content), line.output_tokens)
    tokens = sum(tokenizer.count(part[1]) if isinstance(part, tuple) else 1 for part in content)
    return Prompt(content, tokens, line.output_tokens)


def _is_text(content: Content) -> bool:
    return isinstance(content, str) or isinstance(content[0], tuple)


def _shown(value: Any) -> str:
    """Return a value as a message shows it: short."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004  # a line's room


def _read_options(spec: TrafficSpec) -> _Options:
    """Return the options of a spec, checked."""
    options = options_from(owner_of(spec), spec.dataset_options, _Options)
    require(
        owner_of(spec),
        path_rule(options.path),
        *(
            (
                value is None or is_count(value, 1),
                f"{name} is {value!r}, at least 1 is needed",
            )
            for name, value in (
                ("output_len", options.output_len),
                ("default_output_len", options.default_output_len),
            )
        ),
        *(
            (
                value is None or not is_count(value) or value <= MOST_TOKENS,
                f"{name} is {value!r}, at most {MOST_TOKENS:,} is possible",
            )
            for name, value in (
                ("output_len", options.output_len),
                ("default_output_len", options.default_output_len),
            )
        ),
        (isinstance(options.shuffle, bool), f"shuffle is {options.shuffle!r}, not True or False"),
    )
    return options


DATASET = Custom()
