from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_llmperf.replay.parse import Sent, read_records
from pytest_llmperf.replay.stamps import Reads
from tests.replay.scripted import CHUNKED, DONE, chunk, event

if TYPE_CHECKING:
    from pathlib import Path


def spooled(tmp_path: Path, *reads: tuple[int, bytes, int]) -> tuple[Path, Reads]:
    """Write reads (request, bytes, ns) as a replay leaves them."""
    path = tmp_path / "bytes"
    path.write_bytes(b"".join(data for _, data, _ in reads))
    times = np.array([when for _, _, when in reads], np.int64)
    requests = np.array([request for request, _, _ in reads], np.uint32)
    lengths = np.array([len(data) for _, data, _ in reads], np.uint32)
    return path, Reads(times, times, requests, lengths)


def sent(count: int, errors: dict[int, str] | None = None) -> Sent:
    return Sent(
        due_ns=[100] * count,
        sent_ns=[150 * (i + 1) for i in range(count)],
        asked_tokens=[2] * count,
        ignore_eos=True,
        errors=errors or {},
    )


END = chunk(DONE) + b"0\r\n\r\n"


@pytest.mark.parametrize("window", [1, 200, 1 << 20])
def test_streams_that_came_in_turns_are_told_apart(tmp_path: Path, window: int) -> None:
    """Two interleaved answers, however much of the spool is looked at in one go.

    Request 0: tokens at 1,000 and 3,000 ns, end at 6,000. Request 1: an event split over
    reads at 2,000 and 4,000, then a chunk of one token and the end at 5,000.
    """
    first = chunk(event(1))
    path, reads = spooled(
        tmp_path,
        (0, CHUNKED + chunk(event(1)), 1_000),
        (1, CHUNKED + first[:30], 2_000),
        (0, chunk(event(2)), 3_000),
        (1, first[30:], 4_000),
        (1, chunk(event(2)) + END, 5_000),
        (0, END, 6_000),
    )
    one, two = read_records(sent(2), path, reads, reads.clock_ns, window)
    assert (list(one.chunk_ns), list(one.chunk_tokens)) == ([1_000, 3_000], [1, 1])
    assert (list(two.chunk_ns), list(two.chunk_tokens)) == ([4_000, 5_000], [1, 1])
    assert (one.due_ns, one.sent_ns, one.done_ns) == (100, 150, 6_000)
    assert (two.due_ns, two.sent_ns, two.done_ns) == (100, 300, 5_000)
    assert (one.prompt_tokens, one.output_tokens, one.asked_tokens) == (8, 2, 2)
    assert (one.http_status, one.counted_by, one.error, two.error) == (200, "usage", None, None)


def test_a_request_that_nothing_came_for_has_its_connections_error(tmp_path: Path) -> None:
    """No time is made up for what did not happen: it is None, not 0."""
    path, reads = spooled(tmp_path)
    unsent = Sent([100], [0], [2], ignore_eos=True, errors={0: "connection failed: refused"})
    (record,) = read_records(unsent, path, reads, reads.clock_ns)
    assert record.error == "connection failed: refused"
    assert (record.sent_ns, record.done_ns, record.output_tokens) == (None, None, None)
    assert list(record.chunk_ns) == []


def test_a_cut_answer_keeps_what_came(tmp_path: Path) -> None:
    """One token of two and then nothing: the token's time stays, the end has none."""
    path, reads = spooled(tmp_path, (0, CHUNKED + chunk(event(1)), 1_000), (0, b"", 9_000))
    (record,) = read_records(sent(1), path, reads, reads.clock_ns)
    assert record.error == "incomplete: 1 of 2 tokens (the stream has no end)"
    assert list(record.chunk_ns) == [1_000]
    assert record.done_ns is None


def test_times_of_one_request_never_run_backwards(tmp_path: Path) -> None:
    """A read without a stamp has the process's later time: the next is not before it."""
    path, reads = spooled(
        tmp_path, (0, CHUNKED + chunk(event(1)), 5_000), (0, chunk(event(2)) + END, 4_000)
    )
    (record,) = read_records(sent(1), path, reads, reads.clock_ns)
    assert list(record.chunk_ns) == [5_000, 5_000]
