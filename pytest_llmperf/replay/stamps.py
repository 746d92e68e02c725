"""When each read's bytes arrived: the index of reads, and which clock is to be believed.

The kernel stamps TCP data as it comes in, 2 µs after the sender's ``send``, however long this
process then takes to read it. The stamps are CLOCK_REALTIME, so they are mapped to
CLOCK_MONOTONIC, and where that clock was set during the replay they are not used at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Times = NDArray[np.int64]
Clock = Literal["kernel", "process"]

STEP_NS = 50_000
"""The two clocks run at one rate; an offset that changed by more than this was set."""

MISSING = 0.001
"""The share of reads without a stamp up to which those take the process's reading."""


@dataclass(frozen=True)
class Reads:
    """One entry a read, in order. ``wall_ns`` is the kernel's stamp, 0 where it gave none."""

    clock_ns: Times
    wall_ns: Times
    request: NDArray[np.uint32]
    length: NDArray[np.uint32]


def load_reads(path: Path) -> Reads:
    """Read the index that a Spool wrote."""
    data = path.read_bytes()
    clock: list[Times] = []
    wall: list[Times] = []
    request: list[NDArray[np.uint32]] = []
    length: list[NDArray[np.uint32]] = []
    at = 0
    while at < len(data):
        count = int.from_bytes(data[at : at + 8], "little")
        at += 8
        clock.append(np.frombuffer(data, "<i8", count, at))
        timespec = np.frombuffer(data, "<i8", 2 * count, at + 8 * count).reshape(count, 2)
        wall.append(timespec[:, 0] * 1_000_000_000 + timespec[:, 1])
        request.append(np.frombuffer(data, "<u4", count, at + 24 * count))
        length.append(np.frombuffer(data, "<u4", count, at + 28 * count))
        at += 32 * count
    return Reads(
        np.concatenate(clock), np.concatenate(wall), np.concatenate(request), np.concatenate(length)
    )


def arrival_times(reads: Reads, offsets: Sequence[Sequence[int]]) -> tuple[Times, Clock]:
    """Return the CLOCK_MONOTONIC time of each read's data (ns), and the clock that took it.

    ``offsets``: (monotonic ns, CLOCK_REALTIME less CLOCK_MONOTONIC) read before, during and
    after. The kernel's stamps count if nearly every read with data has one, the offset stayed
    what it was, and no stamp lies after the moment when the process had the data in hand.
    """
    offset = np.array([pair[1] for pair in offsets], np.int64)
    with_data = reads.length > 0
    stamped = reads.wall_ns > 0
    mapped = reads.wall_ns - int(np.median(offset))
    missing = with_data & ~stamped
    stepped = int(offset.max() - offset.min()) > STEP_NS
    early = stamped & (mapped > reads.clock_ns + STEP_NS)
    if stepped or early.any() or missing.sum() > MISSING * with_data.sum() or not stamped.any():
        return reads.clock_ns, "process"
    return np.where(stamped, mapped, reads.clock_ns), "kernel"
