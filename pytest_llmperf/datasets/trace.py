"""Recorded traffic with its own times: ``trace``.

Traces tell when requests came and how long they and their answers were, not what they said:
prompts are token ids, drawn for each request, or for each block that its ``hash_ids`` name, so
that requests share prefixes as they did (``_trace_rows`` has the formats). The arrival process
``trace`` sends them at the recorded times.

``vllm bench serve`` (0.32) has ``timed_trace`` for Mooncake's format: the same times and
lengths, other ids (its own differ from process to process).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from pytest_llmperf.datasets import Drawn
from pytest_llmperf.datasets._token_ids import COUNTED_BY, DEFAULT_IDS, draw_ids
from pytest_llmperf.datasets._trace_options import TraceOptions, read_trace_options
from pytest_llmperf.errors import DatasetError
from pytest_llmperf.model.traffic import Prompt, Tokenizer, TrafficOptions, TrafficSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_llmperf.datasets._trace_rows import Row


def trace(  # noqa: PLR0913  # options with defaults, given by name
    name: str,
    *,
    path: str | Path,
    format: str | None = None,  # noqa: A002  # the word that a suite reads
    columns: Mapping[str, str] | None = None,
    unit_s: float | None = None,
    where: Mapping[str, str] | None = None,
    start_s: float = 0.0,
    duration_s: float | None = None,
    speed: float = 1.0,
    max_input_len: int | None = None,
    max_output_len: int | None = None,
    too_long: str = "clip",
    block_tokens: int = 512,
    token_ids: tuple[int, int] = DEFAULT_IDS,
    **options: Unpack[TrafficOptions],
) -> TrafficSpec:
    """Traffic as it was recorded, at its own times unless ``arrival`` says otherwise.

    ``format`` is ``mooncake``, ``burstgpt`` or ``azure``; for a file of one's own ``columns``
    names the columns ``timestamp``, ``input_tokens``, ``output_tokens`` and, where there are
    any, ``hash_ids`` (with a format, those that differ from it). ``unit_s`` is how many seconds
    1 in ``timestamp`` is. ``where`` keeps the rows whose columns have these values. The first
    ``num_prompts`` requests from ``start_s`` on are taken (after the first row, in recorded
    seconds), within ``duration_s`` if given; ``speed`` 2 sends them in half the time. Lengths
    above ``max_input_len`` and ``max_output_len`` are cut down to them, or such requests left
    out with ``too_long="skip"``. ``block_tokens``: the tokens that one of ``hash_ids`` stands
    for. Raise SpecError for values that cannot be.
    """
    own = {
        "path": str(path),
        "format": format,
        "columns": columns,
        "unit_s": unit_s,
        "where": where,
        "start_s": start_s,
        "duration_s": duration_s,
        "speed": speed,
        "max_input_len": max_input_len,
        "max_output_len": max_output_len,
        "too_long": too_long,
        "block_tokens": block_tokens,
        "token_ids": token_ids,
    }
    options.setdefault("arrival", "trace")
    spec = TrafficSpec.of(name, "trace", own, options)
    read_trace_options(spec)
    return spec


@dataclass(frozen=True, slots=True)
class _Taken:
    """The rows to send, cut to the longest allowed; and what was met on the way to them.

    ``usable`` rows of the window can be sent, ``failed`` ones have a length of 0 and
    ``too_long`` ones were cut or left out.
    """

    rows: tuple[Row, ...]
    usable: int
    failed: int
    too_long: int

    @property
    def disordered(self) -> int:
        """Rows that came later in the file than one with a later time."""
        return sum(later.time_ns < earlier.time_ns for earlier, later in pairwise(self.rows))


class Trace:
    """The dataset behind ``trace``."""

    def prompts(self, spec: TrafficSpec, tokenizer: Tokenizer) -> Drawn:  # noqa: ARG002
        """Return prompts of token ids with their recorded times.

        Nothing needs to count them (hence the unused tokenizer). Raise DatasetError for a file
        of no use, and for one that has fewer requests than asked.
        """
        options, reader = read_trace_options(spec)
        path = Path(options.path).expanduser()
        taken = _take(_window(reader.rows(path), options), spec.num_prompts, options)
        notes = _notes(taken, options, path.name, spec.num_prompts)
        if len(taken.rows) < spec.num_prompts:
            raise DatasetError(
                f"trace: {path} has {taken.usable:,} requests {options.window} that can be sent, "
                f"num_prompts is {spec.num_prompts:,}: ask for no more, or take more of the trace"
                + "".join(f"; {note}" for note in notes)
            )
        rows = sorted(taken.rows, key=lambda row: row.time_ns)  # stable
        first = rows[0].time_ns
        return Drawn(
            tuple(_prompts(rows, spec.seed, options)),
            notes,
            COUNTED_BY,
            tuple(round((row.time_ns - first) / options.speed) for row in rows),
        )


def _window(rows: Iterable[Row | None], options: TraceOptions) -> Iterator[Row]:
    """Return the rows of the window; reading ends with the first row after it."""
    first = None
    for row in rows:
        if row is None:
            continue
        first = row.time_ns if first is None else first
        after_s = (row.time_ns - first) / 1e9
        if after_s >= options.end_s:
            return
        if after_s >= options.start_s or options.start_s == 0:  # the first may not be earliest
            yield row


def _take(rows: Iterable[Row], count: int, options: TraceOptions) -> _Taken:
    """Return the first ``count`` rows that can be sent; of a window, count the others too."""
    kept: list[Row] = []
    usable = failed = too_long = 0
    for row in rows:
        sent = _fitted(row, options)
        usable += sent is not None
        if len(kept) == count:
            continue
        failed += _has_failed(row)
        too_long += sent is not row and not _has_failed(row)
        if sent is not None:
            kept.append(sent)
        if len(kept) == count and options.duration_s is None:
            break
    return _Taken(tuple(kept), usable, failed, too_long)


def _has_failed(row: Row) -> bool:
    return row.input_tokens == 0 or row.output_tokens == 0


def _fitted(row: Row, options: TraceOptions) -> Row | None:
    """Return a row that may be sent: itself, one cut to what is allowed, or none."""
    if _has_failed(row):
        return None
    inputs = min(row.input_tokens, options.max_input_len or row.input_tokens)
    outputs = min(row.output_tokens, options.max_output_len or row.output_tokens)
    if (inputs, outputs) == (row.input_tokens, row.output_tokens):
        return row
    if options.too_long == "skip":
        return None
    return replace(row, input_tokens=inputs, output_tokens=outputs)


def _notes(taken: _Taken, options: TraceOptions, name: str, count: int) -> tuple[str, ...]:
    done = "left out" if options.too_long == "skip" else "cut down to that"
    most = " or ".join(
        f"{what} of more than {most:,} tokens"
        for what, most in (("input", options.max_input_len), ("output", options.max_output_len))
        if most is not None
    )
    notes = (
        (
            taken.failed > 0,
            f"{taken.failed:,} requests of {name} have no input or no output (failed): left out",
        ),
        (taken.too_long > 0, f"{taken.too_long:,} requests of {name} have {most}: {done}"),
        (
            taken.usable > count,
            f"{name} has {taken.usable:,} requests {options.window}: the first {count:,} are sent",
        ),
        (
            taken.disordered > 0,
            f"{taken.disordered:,} requests of {name} are out of order: sorted by their times",
        ),
    )
    return tuple(note for said, note in notes if said)


def _prompts(rows: Sequence[Row], seed: int, options: TraceOptions) -> Iterator[Prompt]:
    """Return prompts of the rows' lengths: equal blocks where their ids are equal."""
    state = np.random.RandomState(seed)
    blocks: dict[int | str, tuple[int, ...]] = {}
    same: dict[int, int] = {}  # one object a token id: a long trace has millions of tokens
    for row in rows:
        length = row.input_tokens
        if row.hash_ids is None:
            drawn = draw_ids(state, options.token_ids, length)
            content = tuple(map(same.setdefault, drawn, drawn))
        else:
            named = row.hash_ids[: -(-length // options.block_tokens)]
            for name in named:
                if name not in blocks:
                    drawn = _block(name, seed, options)
                    blocks[name] = tuple(map(same.setdefault, drawn, drawn))
            content = tuple(chain.from_iterable(blocks[name] for name in named))[:length]
        yield Prompt(content, length, row.output_tokens)


def _block(name: int | str, seed: int, options: TraceOptions) -> tuple[int, ...]:
    """Return the tokens of a block: the same for its name and the seed, in any process.

    They are SHAKE-128's output, 32 bits a token: a generator seeded for each of the tens of
    thousands of blocks would take most of the time.
    """
    first, end = options.token_ids
    stream = hashlib.shake_128(f"{seed}:{name}".encode()).digest(4 * options.block_tokens)
    words = np.frombuffer(stream, dtype="<u4").astype(np.int64)
    return tuple((first + words % (end - first)).tolist())


DATASET = Trace()
