"""Files of records, one a line: read as a stream, as UTF-8 whatever the locale is.

What cannot be used is a DatasetError that names the file, the line and what is wrong with it.
"""

from __future__ import annotations

import csv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import orjson

from pytest_llmperf.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MOST_TOKENS = 10_000_000
"""Of one prompt or answer; a line that says more is a mistake."""


class BadLineError(DatasetError):
    """What is wrong with a line; who reads the file says which file and line it is.

    ``at_end``: it is right as far as it goes, and ends too early.
    """

    def __init__(self, message: str, *, at_end: bool = False) -> None:
        super().__init__(message)
        self.at_end = at_end


def path_rule(path: Any) -> tuple[bool, str]:
    """Return the rule on an option that names a file, for ``require``."""
    return isinstance(path, str) and path != "", f"path is {path!r}, not the name of a file"


@contextmanager
def opened(dataset: str, path: Path) -> Iterator[BinaryIO]:
    """Open a file of ``dataset``; what the system refuses, then or later, is a DatasetError."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise DatasetError(f"{dataset}: cannot read {path}: {error.strerror or error}") from error


def numbered(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Return the lines that are not blank, with their numbers from 1; a byte order mark goes."""
    for number, line in enumerate(file, 1):
        text = (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).strip()
        if text:
            yield number, text


def json_object(line: bytes) -> dict[str, Any]:
    """Return a line's JSON object; raise BadLineError saying what it is instead."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadLineError(
            f"is not JSON: {error.msg} (byte {error.pos + 1})", at_end=_ends_early(line, error)
        ) from None
    if not isinstance(value, dict):
        raise BadLineError("is JSON, but not an object; one object a line is needed (JSONL)")
    return value


def _ends_early(line: bytes, error: orjson.JSONDecodeError) -> bool:
    """Whether nothing is wrong with a line but that it ends, in a character or after one."""
    try:
        return error.pos >= len(line.decode())
    except UnicodeDecodeError as broken:
        return broken.end == len(line) and broken.reason == "unexpected end of data"


def json_records(
    dataset: str, path: Path, read: Callable[[Mapping[str, Any]], T]
) -> Iterator[tuple[int, T]]:
    """Return (line number, what ``read`` makes of its object) for a file of JSON lines.

    A BadLineError of ``read`` becomes a DatasetError that names file and line.
    """
    with opened(dataset, path) as file:
        for number, line in numbered(file):
            try:
                record = read(json_object(line))
            except BadLineError as error:
                raise _at(dataset, path, number, error) from None
            yield number, record


def csv_records(
    dataset: str, path: Path, columns: tuple[str, ...], read: Callable[[Mapping[str, str]], T]
) -> Iterator[tuple[int, T]]:
    """Return (line number, what ``read`` makes of its row) for a CSV file with a header.

    A row is a line. Raise DatasetError where the header lacks one of ``columns``, or a row
    has not as many fields as it, or ``read`` raises BadLineError.
    """
    header: tuple[str, ...] = ()
    with opened(dataset, path) as file:
        for number, line in numbered(file):
            try:
                fields = _fields(line)
                if not header:
                    header = tuple(name.strip() for name in fields)
                    _require_columns(header, columns)
                    continue
                record = read(_row(header, fields))
            except BadLineError as error:
                raise _at(dataset, path, number, error) from None
            yield number, record


def _fields(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode()], strict=True))
    except UnicodeDecodeError as error:
        raise BadLineError(f"is not UTF-8 (byte {error.start + 1})") from None
    except csv.Error as error:
        raise BadLineError(f"is not CSV: {error}") from None


def _require_columns(header: tuple[str, ...], columns: tuple[str, ...]) -> None:
    for name in columns:
        if name not in header:
            raise BadLineError(f"is a header without the column {name!r}: {', '.join(header)}")


def _row(header: tuple[str, ...], fields: list[str]) -> dict[str, str]:
    if len(fields) != len(header):
        raise BadLineError(f"has {len(fields)} fields, the header has {len(header)}")
    return dict(zip(header, fields, strict=True))


def _at(dataset: str, path: Path, number: int, error: BadLineError) -> DatasetError:
    return DatasetError(f"{dataset}: {path}, line {number} {error}")
