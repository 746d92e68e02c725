"""The job file: what the load process is told. Built before, so that nothing is left to do.

Layout, in little-endian words of 8 bytes: the size of a JSON object, the number of requests,
that object (padded), the due times (ns), where each request's bytes end, and those bytes.
"""

from __future__ import annotations

import json
import mmap
import os
from array import array
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
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


@dataclass(frozen=True, slots=True)
class Job:
    """``due_ns`` after the start, ascending; ``requests``: the bytes to write for each."""

    orders: Orders
    due_ns: list[int]
    requests: list[memoryview]


def write_job(path: Path, orders: Orders, due_ns: Iterable[int], requests: Iterable[bytes]) -> None:
    """Write a job file that only this user can read: requests carry the server's key."""
    due = array("q", due_ns)
    ends = array("q", bytes(len(due) * WORD))
    head = json.dumps(asdict(orders)).encode()
    head += b" " * (-len(head) % WORD)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor, not a path
        file.write(array("q", (len(head), len(due))))
        file.write(head)
        file.write(due)
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
    size, count = view[: 2 * WORD].cast("q")
    first = 2 * WORD + size
    orders = Orders(**json.loads(bytes(view[2 * WORD : first])))
    due = array("q", bytes(view[first : first + count * WORD]))
    ends = array("q", bytes(view[first + count * WORD : first + 2 * count * WORD]))
    blob = view[first + 2 * count * WORD :]
    starts = [0, *ends[:-1]]
    requests = [blob[start:end] for start, end in zip(starts, ends, strict=True)]
    return Job(orders, due.tolist(), requests)
