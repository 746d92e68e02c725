"""The rows of a recorded trace: when a request came, and how long it and its answer were.

A format is a mapping of columns. The three public ones, as their files are:

- Mooncake (kvcache-ai/Mooncake, FAST25-release/traces): JSON lines, ``timestamp`` in ms,
  ``hash_ids`` of blocks of 512 tokens; equal ids are equal tokens after an equal prefix.
- BurstGPT (HPMLL/BurstGPT): CSV, ``Timestamp`` in s; a failed request has 0 response tokens.
- Azure LLM inference (Azure/AzurePublicDataset, 2023 and 2024): CSV, ``TIMESTAMP`` as a date,
  with seven digits of a second in 2023 and with an offset from UTC in 2024.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from pytest_llmperf.datasets._files import BadLineError, csv_records, json_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
JSON_LINES = (".jsonl", ".ndjson", ".json")
"""Endings of the names of files of one's own that have an object a line; others are CSV."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column holds what; ``hash_ids`` where prefixes are known."""

    timestamp: str
    input_tokens: str
    output_tokens: str
    hash_ids: str | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of trace: its columns, the seconds that 1 in its ``timestamp`` is, JSON or CSV."""

    columns: Columns
    unit_s: float = 1.0
    json_lines: bool = False


FORMATS = {
    "mooncake": Format(
        Columns("timestamp", "input_length", "output_length", "hash_ids"), 0.001, json_lines=True
    ),
    "burstgpt": Format(Columns("Timestamp", "Request tokens", "Response tokens")),
    "azure": Format(Columns("TIMESTAMP", "ContextTokens", "GeneratedTokens")),
}
COLUMN_NAMES = tuple(field.name for field in fields(Columns))
NEEDED = COLUMN_NAMES[:3]


@dataclass(frozen=True, slots=True)
class Row:
    """One request of a trace: its time in ns, its lengths in tokens, its blocks if known."""

    time_ns: int
    input_tokens: int
    output_tokens: int
    hash_ids: tuple[int | str, ...] | None = None


@dataclass(frozen=True, slots=True)
class RowReader:
    """Makes a row of a record; None of one whose columns are not as ``where`` asks."""

    columns: Columns
    unit_s: float
    json_lines: bool
    block_tokens: int
    where: Mapping[str, Any]

    def rows(self, path: Path) -> Iterator[Row | None]:
        """Return a file's rows as a stream; raise DatasetError for one of no use."""
        if self.json_lines:
            records = json_records("trace", path, self._row)
        else:
            named = [getattr(self.columns, name) for name in COLUMN_NAMES]
            needed = (*(name for name in named if name is not None), *self.where)
            records = csv_records("trace", path, needed, self._row)
        return (row for _, row in records)

    def _row(self, record: Mapping[str, Any]) -> Row | None:
        if any(str(_field(record, name)) != str(value) for name, value in self.where.items()):
            return None
        columns = self.columns
        hash_ids = None if columns.hash_ids is None else record.get(columns.hash_ids)
        row = Row(
            self._time_ns(record),
            _tokens(record, columns.input_tokens),
            _tokens(record, columns.output_tokens),
            None if hash_ids is None else _ids(hash_ids, columns.hash_ids),
        )
        if row.hash_ids is not None:
            blocks = -(-row.input_tokens // self.block_tokens)
            if len(row.hash_ids) != blocks:
                raise BadLineError(
                    f"has {len(row.hash_ids)} {columns.hash_ids} for {row.input_tokens:,} input "
                    f"tokens, which are {blocks} blocks of {self.block_tokens}; say how many tokens "
                    "a block has: block_tokens=... in the suite, --timed-trace-chunk-hash-size of "
                    "pytest-llmperf bench"
                )
        return row

    def _time_ns(self, record: Mapping[str, Any]) -> int:
        """Return a number in units, or a date, as ns; a date without an offset is UTC."""
        value = _field(record, self.columns.timestamp)
        number = _decimal(value)
        if number is not None:
            return int((number * Decimal(repr(self.unit_s)) * 10**9).to_integral_value())
        try:
            date = datetime.fromisoformat(str(value).strip())
        except ValueError:
            raise BadLineError(
                f"has {self.columns.timestamp} {value!r}, neither a number nor a date"
            ) from None
        return (date.replace(tzinfo=date.tzinfo or UTC) - EPOCH) // MICROSECOND * 1_000


def _field(record: Mapping[str, Any], name: str) -> Any:
    """Return a value of a record; CSV's columns are known to be there, JSON's are not."""
    try:
        return record[name]
    except KeyError:
        raise BadLineError(f"has no {name!r}, only {', '.join(record) or 'nothing'}") from None


def _decimal(value: Any) -> Decimal | None:
    """Return a number as written, None for what is none: floats would lose nanoseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(value.strip() if isinstance(value, str) else repr(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _tokens(record: Mapping[str, Any], name: str) -> int:
    value = _field(record, name)
    number = _decimal(value)
    if number is None or number < 0 or number != int(number):
        raise BadLineError(f"has {name} {value!r}, not a number of tokens")
    return int(number)


def _ids(value: Any, name: str | None) -> tuple[int | str, ...]:
    known = isinstance(value, list) and all(isinstance(item, int | str) for item in value)
    if not known:
        raise BadLineError(f"has {name} that are no list of ids")
    return tuple(value)
