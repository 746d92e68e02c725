"""The requests of one replay as Parquet: a row a request, the chunks as nested lists.

Clock readings are stored as differences (DELTA_BINARY_PACKED) under zstd: about 3 bytes an
event where tokens come every 20 ms.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pytest_llmperf.errors import StoreError
from pytest_llmperf.model.record import RequestRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCHEMA = 1
_SCHEMA_KEY = b"pytest_llmperf.schema"

_COLUMNS = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("due_ns", pa.int64(), nullable=False),
        pa.field("sent_ns", pa.int64()),
        pa.field("chunk_ns", pa.list_(pa.int64()), nullable=False),
        pa.field("chunk_tokens", pa.list_(pa.int32()), nullable=False),
        pa.field("done_ns", pa.int64()),
        pa.field("asked_tokens", pa.int64(), nullable=False),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("output_tokens", pa.int64()),
        pa.field("cached_tokens", pa.int64()),
        pa.field("counted_by", pa.string(), nullable=False),
        pa.field("http_status", pa.int32()),
        pa.field("finish_reason", pa.string()),
        pa.field("error", pa.string()),
    ],
    metadata={_SCHEMA_KEY: str(SCHEMA).encode()},
)
_DELTA = (
    "index",
    "due_ns",
    "sent_ns",
    "done_ns",
    "chunk_ns.list.element",
    "chunk_tokens.list.element",
)
_TEXTS = ["counted_by", "finish_reason", "error"]


def requests_to_parquet(records: Sequence[RequestRecord]) -> bytes:
    """Return a Parquet file of ``records``, in their order."""
    columns: list[pa.Array[Any]] = []
    for field in _COLUMNS:
        values = [getattr(record, field.name) for record in records]
        if pa.types.is_list(field.type):
            columns.append(_lists(values, field.type))
        else:
            columns.append(pa.array(values, field.type))
    table = pa.Table.from_arrays(columns, schema=_COLUMNS)
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=_TEXTS,  # type: ignore[arg-type] # the stubs know bool alone
        column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
    )
    return sink.getvalue()


def requests_from_parquet(path: Path) -> tuple[RequestRecord, ...]:
    """Return the records that were stored; raise StoreError where the file is damaged."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{path} is damaged or cannot be read: {error}") from error
    schema = int((table.schema.metadata or {}).get(_SCHEMA_KEY, b"0"))
    if schema > SCHEMA or table.schema.names != _COLUMNS.names:
        raise StoreError(
            f"{path} has schema {schema} with columns {', '.join(table.schema.names)}; this "
            f"version of pytest-llmperf reads schema {SCHEMA}. Read it with the version that "
            "wrote it"
        )
    names = table.schema.names
    columns = [_values(table.column(field.name), field.type) for field in _COLUMNS]
    return tuple(
        RequestRecord(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)
    )


def _values(column: pa.ChunkedArray[Any], kind: pa.DataType) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return [tuple(row) for row in values] if pa.types.is_list(kind) else values


def _lists(values: Sequence[Sequence[int]], kind: pa.DataType) -> pa.Array[Any]:
    """Return a list array without making a Python object of every element again."""
    width: npt.DTypeLike = np.int32 if kind == pa.list_(pa.int32()) else np.int64
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    rows = [np.asarray(row, width) for row in values if len(row)]
    flat = np.concatenate(rows) if rows else np.empty(0, width)
    lists: pa.Array[Any] = pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(flat), type=kind
    )
    return lists
