"""From what a replay received to its RequestRecords, after the load is over."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_llmperf.model.record import RequestRecord
from pytest_llmperf.replay.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_llmperf.replay.stamps import Reads, Times

WINDOW = 64 * 1024 * 1024
"""Bytes of the spool looked at in one go: enough to hold many reads of each request."""


@dataclass(frozen=True)
class Sent:
    """What was asked and what the load process noted, one entry a request.

    ``sent_ns`` is 0 for a request that never left; ``errors`` maps an index to what became
    of its connection; ``unsent`` maps a later turn that was not sent to the request whose
    answer failed, an earlier one, and the number of that one's turn.
    """

    due_ns: Sequence[int]
    sent_ns: Sequence[int]
    asked_tokens: Sequence[int]
    ignore_eos: bool
    errors: Mapping[int, str]
    unsent: Mapping[int, tuple[int, int]] = field(default_factory=dict)


def read_records(
    sent: Sent, spool: Path, reads: Reads, times: Times, window: int = WINDOW
) -> tuple[RequestRecord, ...]:
    """Parse the bytes in ``spool`` that came in ``reads`` at ``times``: one record a request."""
    answers: defaultdict[int, Answer] = defaultdict(Answer)
    for index, data, ends, when in _pieces(spool, reads, times, window):
        answers[index].feed(data, ends, when)
    records: list[RequestRecord] = []
    for index in range(len(sent.due_ns)):
        record = _record(sent, index, answers.pop(index, None))
        if index in sent.unsent:
            root, turn = sent.unsent[index]
            reason = records[root].error or sent.errors.get(root)
            record = replace(record, error=f"not sent: the answer to turn {turn} failed: {reason}")
        records.append(record)
    return tuple(records)


def _pieces(
    spool: Path, reads: Reads, times: Times, window: int
) -> Iterator[tuple[int, bytes, list[int], list[int]]]:
    """Yield a request's bytes within one window, where its reads end in them, and when.

    The file is read once, front to back: what many streams brought in turns lies in turns.
    """
    lengths = reads.length.astype(np.int64)
    ends = np.cumsum(lengths)
    first = 0
    with spool.open("rb") as file:
        while first < len(ends):
            base = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, base + window, "right")), first + 1)
            data = memoryview(file.read(int(ends[last - 1]) - base))
            order = first + np.argsort(reads.request[first:last], kind="stable")
            request = reads.request[order]
            for group in np.split(order, np.flatnonzero(np.diff(request)) + 1):
                stops = (ends[group] - base).tolist()
                sizes = lengths[group]
                spans = zip(stops, sizes.tolist(), strict=True)
                piece = b"".join([data[stop - size : stop] for stop, size in spans])
                # A read without a stamp has the process's time, a little after the kernel's.
                when = np.maximum.accumulate(times[group]).tolist()
                yield int(reads.request[group[0]]), piece, np.cumsum(sizes).tolist(), when
            first = last


def _record(sent: Sent, index: int, answer: Answer | None) -> RequestRecord:
    answer = answer or Answer()
    asked = sent.asked_tokens[index]
    error = answer.verdict(lost=sent.errors.get(index), asked=asked, all_of_them=sent.ignore_eos)
    output = answer.output
    return RequestRecord(
        index=index,
        due_ns=sent.due_ns[index],
        sent_ns=sent.sent_ns[index] or None,
        chunk_ns=output.chunk_ns,
        chunk_tokens=output.chunk_tokens,
        done_ns=answer.last_ns if answer.ended else None,
        asked_tokens=asked,
        prompt_tokens=output.prompt_tokens,
        output_tokens=output.tokens,
        cached_tokens=output.cached_tokens,
        counted_by=output.counted_by,
        http_status=answer.head.status if answer.head else None,
        finish_reason=output.finish_reason,
        error=error,
    )
