"""Files of conversations as streams of records: a JSON list of them, or JSON lines of one each.

Both kinds of file may be cut off in their last record: what is whole is kept, and it is said
where the file ends. One that is broken before its end is of no use, since nobody can say how
much of it is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import ijson

from pytest_llmperf.datasets._files import (
    BYTE_ORDER_MARK,
    BadLineError,
    json_object,
    numbered,
    opened,
)
from pytest_llmperf.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SHOWN = 20
"""Bytes of the beginning of a file that is none of this kind."""


@dataclass(frozen=True, slots=True)
class Whole:
    """How many records of a file could be read, and why reading ended early if it did."""

    path: Path
    records: int
    complaint: str | None

    def notes(self, not_text: int = 0, *, why: bool = False) -> Iterator[str]:
        """Yield what a reader must know of the file.

        ``not_text``: conversations that were left out for that. ``why``: with the complaint.
        """
        if self.complaint is not None:
            yield (
                f"{self.path.name} is cut off after {self.records:,} whole conversations"
                f"{f' ({self.complaint})' if why else ''}; what follows is left out"
            )
        if not_text:
            yield (
                f"{not_text:,} conversations of {self.path.name} are not text alone and were left "
                "out"
            )

    def repeats(self, usable: int, repeated: int, asked: int, what: str) -> Iterator[str]:
        """Yield that ``repeated`` of the ``what`` asked for come again, where any does."""
        if repeated > 0:
            yield (
                f"only {usable:,} conversations of {self.path.name} are usable: {repeated:,} of "
                f"the {asked:,} {what} repeat them"
            )


class _CutOffError(DatasetError):
    """The file ends in the middle of a record."""


class _Watched:
    """A file that knows whether it has been read to its end, and been asked for more."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.exhausted = False

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        data = self._file.read(size)
        self.exhausted = self.exhausted or (size != 0 and not data)
        return data


def read_whole(dataset: str, path: Path, take: Callable[[Any], None]) -> Whole:
    """Give each record of a file to ``take``, in the file's order, holding none.

    Raise DatasetError for a file that cannot be read, holds no record, or is broken in the
    middle.
    """
    whole = 0
    complaint = None
    with opened(dataset, path) as file:
        try:
            for record in _records(dataset, path, file):
                whole += 1
                take(record)
        except _CutOffError as error:
            complaint = str(error)
        empty = file.tell() == 0
    if empty:
        raise DatasetError(f"{dataset}: {path} is empty")
    if not whole:
        raise _no_list(dataset, path, complaint)
    return Whole(path, whole, complaint)


def _records(dataset: str, path: Path, file: BinaryIO) -> Iterator[Any]:
    """Yield the records of a list, or of the lines; raise _CutOffError where it breaks off."""
    if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
        file.seek(0)
    start = file.tell()
    while (first := file.read(1)).isspace():
        pass
    if first == b"{":
        file.seek(start)
        yield from _lines(dataset, path, file)
    elif first == b"[":
        file.seek(start)
        yield from _listed(dataset, path, file)
    elif first:
        begins = (first + file.read(SHOWN - 1)).decode(errors="replace")
        raise _no_list(dataset, path, f"it begins with {begins!r}")


def _listed(dataset: str, path: Path, file: BinaryIO) -> Iterator[Any]:
    watched = _Watched(file)
    whole = 0
    try:
        for record in ijson.items(watched, "item", use_float=True):
            whole += 1
            yield record
    except ijson.JSONError as error:
        said = error.args[0] if error.args else type(error).__name__
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        complaint = text.partition("\n")[0].strip()
        # The parser reports any error as an incomplete file; it is one where nothing was left.
        if watched.exhausted:
            raise _CutOffError(complaint) from None
        raise DatasetError(
            f"{dataset}: {path}, record {whole + 1:,} is not JSON: {complaint}"
        ) from None


def _lines(dataset: str, path: Path, file: BinaryIO) -> Iterator[Any]:
    lines = numbered(file)
    for number, line in lines:
        try:
            yield json_object(line)
        except BadLineError as error:
            if error.at_end and next(lines, None) is None:
                raise _CutOffError(f"line {number} {error}") from None
            raise DatasetError(f"{dataset}: {path}, line {number} {error}") from None


def _no_list(dataset: str, path: Path, complaint: str | None) -> DatasetError:
    why = f" ({complaint})" if complaint else ""
    return DatasetError(
        f"{dataset}: {path} is not a JSON list of conversations{why}, nor has it one a line"
    )
