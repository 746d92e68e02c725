"""The job file: what the load process is told. Built before, so that nothing is left to do.

Layout, in little-endian words of 8 bytes: the size of a JSON object, the number of requests
and of later turns, that object (padded), the due times (ns), a ``Turn`` in three words each,
where each request's bytes end, and those bytes.
"""

from __future__ import annotations

import json
import mmap
import os
from array import array
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

WORD = 8


@dataclass(frozen=True, slots=True)
class Orders:
    """Where to, how many at once, how long silence may last, and whose child the reader is."""

    host: str
    port: int
    max_concurrency: int | None
    stall_ns: int
    parent: int


class Turn(NamedTuple):
    """One is due ``think_ns`` after the end of the answer to another, ``after``."""

    request: int
    after: int
    think_ns: int


@dataclass(frozen=True, slots=True)
class Job:
    """``due_ns`` after the start, ascending; ``requests``: the bytes to write for each.

    The due time of a later turn, which has its place in ``turns``, is 0 and says nothing.
    """

    orders: Orders
    due_ns: list[int]
    requests: list[memoryview]
    turns: list[Turn]


def write_job(
    path: Path,
    orders: Orders,
    due_ns: Iterable[int],
    requests: Iterable[bytes],
    turns: Sequence[Turn] = (),
) -> None:
    """Write a job file that only this user can read: requests carry the server's key."""
    due = array("q", due_ns)
    ends = array("q", bytes(len(due) * WORD))
    head = json.dumps(asdict(orders)).encode()
    head += b" " * (-len(head) % WORD)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor, not a path
        file.write(array("q", (len(head), len(due), len(turns))))
        file.write(head)
        file.write(due)
        file.write(array("q", chain.from_iterable(turns)))
        table = file.tell()
        file.write(ends)
        end = 0
        for index, request in enumerate(requests):
            file.write(request)
            end += len(request)
            ends[index] = end
        file.seek(table)
        file.write(ends)


def read_job(path: Path) -> Job:
    """Map a job file into memory; the requests stay in the file's pages."""
    with path.open("rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    size, count, later = view[: 3 * WORD].cast("q")
    at = 3 * WORD + size
    orders = Orders(**json.loads(bytes(view[3 * WORD : at])))
    due, at = _words(view, at, count)
    flat, at = _words(view, at, later * len(Turn._fields))
    ends, at = _words(view, at, count)
    blob = view[at:]
    starts = [0, *ends[:-1]]
    requests = [blob[start:end] for start, end in zip(starts, ends, strict=True)]
    turns = [Turn(*flat[place : place + 3]) for place in range(0, len(flat), 3)]
    return Job(orders, due, requests, turns)


def _words(view: memoryview, at: int, count: int) -> tuple[list[int], int]:
    """Return ``count`` words at a place in the file, and the place after them."""
    end = at + count * WORD
    return array("q", bytes(view[at:end])).tolist(), end
