"""What a replay receives, on its way to disk: bytes in one file, an index of reads in another.

14,200 events a second for ten minutes are 2.5 GB, so only the latest 64 MiB are held while the
load runs; most replays bring less and touch no disk before they are over. A thread writes: a
disk may take seconds over what it usually does in one millisecond. The index has one entry a read: which request, how many bytes, the process's
clock and the kernel's stamp.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import deque
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_llmperf.replay.connections import Connection

BLOCK, ROOM = 192 * 1024, 64 * 1024
"""Bytes gathered before a write, and room for one more read."""

HELD_BLOCKS = 256
MOST_BLOCKS = 4096
"""Blocks that may wait for the disk (1 GiB) before a replay is given up."""

ANCILLARY = 32
"""Room for one control message with a struct timespec: CMSG_SPACE(16)."""

NO_STAMP = bytes(16)
BYTES = "bytes"
READS = "reads"


class SpoolError(Exception):
    """The disk does not take what a replay brings."""


@dataclass(slots=True)
class Block:
    """One buffer and the columns of the reads that filled it."""

    data: bytearray = field(default_factory=lambda: bytearray(BLOCK + ROOM))
    size: int = 0
    clock_ns: array[int] = field(default_factory=lambda: array("q"))
    stamps: bytearray = field(default_factory=bytearray)
    request: array[int] = field(default_factory=lambda: array("I"))
    length: array[int] = field(default_factory=lambda: array("I"))


class Spool:
    """Reads sockets into a buffer and notes when. ``heard_ns``: the last read's time.

    ``buffer`` is the block being filled and ``at`` its end.
    """

    def __init__(self, folder: Path) -> None:
        self.at = 0
        self.heard_ns = 0
        self.received = 0
        self._failure: OSError | None = None
        self._held: deque[Block] = deque()
        self._full: SimpleQueue[Block | None] = SimpleQueue()
        self._free: SimpleQueue[bytearray] = SimpleQueue()
        self._begin(Block())
        self._writer = threading.Thread(target=self._write, args=(folder,), daemon=True)
        self._writer.start()

    def receive(self, conn: Connection) -> int:
        """Read a socket once; return the number of bytes, 0 where the stream has ended.

        The bytes are the last ones before ``at`` in ``buffer`` until the next call. Raises
        what the socket raises. This is the hot path: a clock reading and an append.
        """
        if self.at > BLOCK:
            self.flush()
        at = self.at
        count, ancillary, _, _ = conn.receive((self._view[at:],), ANCILLARY)
        now = time.monotonic_ns()
        self._clock_ns.append(now)
        self._request.append(conn.request)
        self._length.append(count)
        self._stamps += ancillary[0][2] if ancillary else NO_STAMP
        self.at = at + count
        self.heard_ns = conn.heard_ns = now
        return count

    def flush(self) -> None:
        """Put the block aside; hand the oldest to the writer. Raise SpoolError where the disk takes no more."""
        if self._failure is not None:
            raise SpoolError(f"cannot keep what the server sends: {self._failure}")
        if self._full.qsize() > MOST_BLOCKS:
            raise SpoolError("the disk is slower than the server: a GiB waits to be written")
        self._block.size = self.at
        self.received += self.at
        self._held.append(self._block)
        if len(self._held) > HELD_BLOCKS:
            self._full.put(self._held.popleft())
        try:
            self._begin(Block(self._free.get_nowait()))
        except Empty:
            self._begin(Block())

    def close(self) -> None:
        """Write the rest. Raise SpoolError where the disk did not take it."""
        self.flush()
        for block in (*self._held, None):
            self._full.put(block)
        self._held.clear()
        self._writer.join()
        if self._failure is not None:
            raise SpoolError(f"cannot keep what the server sends: {self._failure}")

    def _begin(self, block: Block) -> None:
        self._block = block
        self.at = 0
        self.buffer, self._view = block.data, memoryview(block.data)
        self._clock_ns, self._stamps = block.clock_ns, block.stamps
        self._request, self._length = block.request, block.length

    def _write(self, folder: Path) -> None:
        """Write blocks until told to stop. An index block: its number of reads, then columns."""
        try:
            with (folder / BYTES).open("wb") as data, (folder / READS).open("wb") as reads:
                while (block := self._full.get()) is not None:
                    data.write(memoryview(block.data)[: block.size])
                    self._free.put(block.data)
                    reads.write(array("q", (len(block.request),)))
                    for column in (block.clock_ns, block.stamps, block.request, block.length):
                        reads.write(column)
        except OSError as error:
            self._failure = error
