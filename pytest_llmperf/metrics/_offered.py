"""Whether a replay's throughput measures its arrivals and not the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_llmperf.metrics._records import (
    NS_A_S,
    Ints,
    completed,
    integers,
    last_chunk_ns,
    output_tokens,
)

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay

FELL_BEHIND = 0.05
"""A server that is slower than the arrivals by more than this share did not keep up."""

QUEUED = 0.10
"""Mean wait in the client, as a share of the median request, from which there is a queue."""

DRAIN = 0.5
"""Time after the last arrival, as a share of the schedule, that a throughput may contain."""


def offered_limited(replay: Replay) -> bool:
    """Whether the offered rate was reached, so that throughput measures the arrivals.

    So it is where requests came by a schedule and

    - no client queue to speak of held them back (its mean is at most 10 % of the median E2EL);
    - the server kept up: it fell behind by at most 5 % of the time that passed (``_behind``);
    - the schedule set the duration, not the last requests after it: they took at most half as
      long as the schedule.

    Otherwise throughput says something about the server, and False is returned, also where
    nothing completed.
    """
    records = completed(replay)
    if replay.offered_rate is None or not records:
        return False
    due = integers(r.due_ns for r in records)
    sent = integers(r.sent_ns for r in records)
    last = last_chunk_ns(records)
    span = int(due.max() - due.min())
    if span == 0:
        return False
    tokens = integers(output_tokens(r) for r in records)
    return bool(
        np.mean(sent - due) <= QUEUED * np.median(last - sent)
        and _behind(due, last - due, tokens) <= FELL_BEHIND
        and last.max() - due.max() <= DRAIN * span
    )


def _behind(due_ns: Ints, waited_ns: Ints, tokens: Ints) -> float:
    """Return by how many seconds requests had to wait longer for each second that passed.

    A server slower than the arrivals by a share s falls behind by s seconds a second, whether
    the queue is in the client or in the server. It is the slope over the due time of a
    least-squares fit of the wait, from due time to last chunk, over due time and output
    tokens: so requests of different lengths do not hide it.
    """
    due, waited, length = (
        values - values.mean() for values in (due_ns / NS_A_S, waited_ns / NS_A_S, tokens)
    )
    fit, *_ = np.linalg.lstsq(np.column_stack([due, length]), waited)
    return float(fit[0])
