"""What metrics read from records, as arrays.

**Completed** is a request that brought all it was asked for: no error, sent, and at least one
chunk of output. As in ``vllm bench serve``, only those give latencies and tokens; the others
are counted by ``error_rate`` (a replay with more of them than the traffic allows is INVALID).
The duration and the number in flight are of all requests, since the server worked for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_llmperf.model.record import Replay, RequestRecord

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

NS_A_MS = 1e6
NS_A_S = 1e9


def completed(replay: Replay) -> list[RequestRecord]:
    """Return the records of requests that brought all they were asked for."""
    return [r for r in replay.records if _is_complete(r)]


def _is_complete(record: RequestRecord) -> bool:
    return record.error is None and record.sent_ns is not None and len(record.chunk_ns) > 0


def integers(values: Iterable[int | None]) -> Ints:
    """Return clock readings or counts as an array; none may be None."""
    return np.array(list(values), dtype=np.int64)


def first_chunk_ns(records: Sequence[RequestRecord]) -> Ints:
    """Return when the first chunk of output of each came; each must have one."""
    return integers(r.chunk_ns[0] for r in records)


def last_chunk_ns(records: Sequence[RequestRecord]) -> Ints:
    """Return when the last chunk of output of each came; each must have one."""
    return integers(r.chunk_ns[-1] for r in records)


def milliseconds(ns: Ints) -> list[float]:
    """Return durations in ns as ms."""
    values: list[float] = (ns / NS_A_MS).tolist()
    return values


def output_tokens(record: RequestRecord) -> int:
    """Return the output tokens as the server counted them; without its count, the chunks'."""
    if record.output_tokens is not None:
        return record.output_tokens
    return int(sum(record.chunk_tokens))


def chunks(records: Sequence[RequestRecord]) -> tuple[Ints, Ints]:
    """Return when every chunk came and how many tokens it brought, a request after another."""
    if not records:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ns = np.concatenate([np.asarray(r.chunk_ns, dtype=np.int64) for r in records])
    tokens = np.concatenate([np.asarray(r.chunk_tokens, dtype=np.int64) for r in records])
    return ns, tokens


def gaps(records: Sequence[RequestRecord]) -> tuple[Ints, Ints]:
    """Return the gap before every chunk but a request's first in ns, and the chunk's tokens."""
    ns, tokens = chunks(records)
    later = np.ones(len(ns), dtype=bool)
    lengths = integers(len(r.chunk_ns) for r in records)
    later[np.cumsum(lengths) - lengths] = False
    return np.diff(ns, prepend=ns[:1])[later], tokens[later]


def duration_s(replay: Replay) -> float | None:
    """Return the seconds from the first send to the last chunk of any request.

    None where nothing was sent or nothing came.
    """
    sent = [r.sent_ns for r in replay.records if r.sent_ns is not None]
    last = [r.chunk_ns[-1] for r in replay.records if len(r.chunk_ns) > 0]
    if not sent or not last or max(last) <= min(sent):
        return None
    return (max(last) - min(sent)) / NS_A_S


def per_second(replay: Replay, amount: float | None) -> float | None:
    """Return ``amount`` over the replay's duration.

    None where there is no amount, no duration, or no request completed.
    """
    duration = duration_s(replay)
    if amount is None or duration is None or not any(map(_is_complete, replay.records)):
        return None
    return amount / duration


def prompt_tokens(records: Iterable[RequestRecord]) -> int | None:
    """Return the sum of the server's counts; None where it left one out."""
    counts = [r.prompt_tokens for r in records]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def in_flight(replay: Replay) -> tuple[Ints, Ints]:
    """Return when the number of requests in flight changed, and to what.

    A request is in flight from its send to the end of its stream; where no end was seen, to
    its last chunk. Where one ends as another starts, the end comes first.
    """
    sent = [r for r in replay.records if r.sent_ns is not None]
    starts = integers(r.sent_ns for r in sent)
    ends = integers(_end_ns(r) for r in sent)
    times = np.concatenate([ends, starts])
    steps = np.repeat(np.array([-1, 1], dtype=np.int64), len(sent))
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(steps[order])


def _end_ns(record: RequestRecord) -> int | None:
    if record.done_ns is not None:
        return record.done_ns
    return record.chunk_ns[-1] if len(record.chunk_ns) > 0 else record.sent_ns
