from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_llmperf.replay.spool import READS, Spool
from pytest_llmperf.replay.stamps import Reads, arrival_times, load_reads

if TYPE_CHECKING:
    from pathlib import Path

EPOCH = 1_700_000_000_000_000_000
"""CLOCK_REALTIME less CLOCK_MONOTONIC in these tests."""


def reads(clock: list[int], wall: list[int], length: list[int] | None = None) -> Reads:
    sizes = length or [300] * len(clock)
    return Reads(
        np.array(clock, np.int64),
        np.array(wall, np.int64),
        np.zeros(len(clock), np.uint32),
        np.array(sizes, np.uint32),
    )


def test_the_kernels_stamps_are_mapped_to_the_monotonic_clock() -> None:
    """Data that came at 5,000 and 9,000 ns and was read at 7,000 and 30,000."""
    seen = reads([7_000, 30_000], [EPOCH + 5_000, EPOCH + 9_000])
    times, clock = arrival_times(seen, [(0, EPOCH), (40_000, EPOCH)])
    assert clock == "kernel"
    assert times.tolist() == [5_000, 9_000]


def test_the_end_of_a_stream_has_no_stamp() -> None:
    """A read of nothing takes the process's clock and speaks against no stamp."""
    seen = reads([7_000, 8_000], [EPOCH + 5_000, 0], [300, 0])
    times, clock = arrival_times(seen, [(0, EPOCH)])
    assert clock == "kernel"
    assert times.tolist() == [5_000, 8_000]


def test_a_clock_that_was_set_is_not_used() -> None:
    """The offset moved by 51 µs between two looks at it: all times are the process's."""
    seen = reads([7_000], [EPOCH + 5_000])
    times, clock = arrival_times(seen, [(0, EPOCH), (9_000, EPOCH + 51_000)])
    assert clock == "process"
    assert times.tolist() == [7_000]


def test_a_small_error_of_reading_the_offset_is_borne() -> None:
    """The median of the offsets counts: 1,000 ns of jitter are no step."""
    seen = reads([7_000], [EPOCH + 5_000])
    offsets = [(0, EPOCH), (1, EPOCH + 1_000), (2, EPOCH)]
    assert arrival_times(seen, offsets)[0].tolist() == [5_000]


def test_a_stamp_from_the_future_is_not_believed() -> None:
    """Data cannot arrive 60 µs after it was read: the clock was set and set back in between."""
    seen = reads([7_000], [EPOCH + 67_000])
    assert arrival_times(seen, [(0, EPOCH)])[1] == "process"


def test_without_stamps_the_process_keeps_the_clock() -> None:
    """A proxy, another platform: the figures say which clock took them."""
    times, clock = arrival_times(reads([7_000, 8_000], [0, 0]), [(0, EPOCH)])
    assert clock == "process"
    assert times.tolist() == [7_000, 8_000]


def test_many_missing_stamps_are_too_many() -> None:
    """One of 2,000 is filled in, three of 2,000 are not."""
    walls = [EPOCH + i for i in range(2000)]
    clocks = [i + 10 for i in range(2000)]
    walls[7] = 0
    times, clock = arrival_times(reads(clocks, walls), [(0, EPOCH)])
    assert clock == "kernel"
    assert times[6:9].tolist() == [6, 17, 8]
    walls[8] = walls[9] = 0
    assert arrival_times(reads(clocks, walls), [(0, EPOCH)])[1] == "process"


def test_the_index_is_read_as_it_was_written(tmp_path: Path) -> None:
    """An empty replay leaves an index without reads."""
    Spool(tmp_path).close()
    seen = load_reads(tmp_path / READS)
    assert [len(column) for column in (seen.clock_ns, seen.wall_ns, seen.request)] == [0, 0, 0]
    assert arrival_times(seen, [(0, EPOCH)])[1] == "process"
