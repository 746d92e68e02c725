"""JSON files of a run: plain values in, named errors out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_llmperf.errors import SpecError, StoreError
from pytest_llmperf.store._atomic import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
"""Raised when a file's meaning changes; a reader refuses what is newer than itself."""

T = TypeVar("T")


def write_json(path: Path, data: Mapping[str, Any], *, compact: bool = False) -> None:
    """Write ``data`` with the schema version, all at once; for people unless ``compact``."""
    text = json.dumps(
        {"schema": SCHEMA, **plain(data)},
        ensure_ascii=False,
        indent=None if compact else 1,
        allow_nan=False,
    )
    write_atomically(path, text + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in ``path``; raise StoreError where it is damaged or too new."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise StoreError(
            f"{path} is damaged: {error}. It was written whole, so something changed it since; "
            "restore it, or remove it to read the rest of the run"
        ) from error
    if not isinstance(data, dict):
        raise StoreError(f"{path} is damaged: it holds a {type(data).__name__}, not an object")
    schema = data.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise StoreError(
            f"{path} has schema {schema!r}; this version of pytest-llmperf reads up to {SCHEMA}. "
            "Read it with the version that wrote it"
        )
    return data


def plain(value: Any) -> Any:
    """Return what JSON can hold. Infinity and NaN become the strings that ``float`` reads."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, str | int) or value is None:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, Iterable) else str(value)


def build(kind: type[T], data: Any, where: Path, **converted: Any) -> T:
    """Return a ``kind`` (a dataclass) of the fields in ``data``, overridden by ``converted``.

    Fields that this version does not know are left out. Raises StoreError, naming the file,
    where one is missing or the values cannot be.
    """
    if not isinstance(data, Mapping):
        raise StoreError(f"{where} is damaged: {kind.__name__} is not an object")
    known = [f for f in fields(kind) if f.init]  # type: ignore[arg-type] # kind is a dataclass
    values = {f.name: data[f.name] for f in known if f.name in data} | converted
    for field in known:
        required = field.default is MISSING and field.default_factory is MISSING
        if required and field.name not in values:
            raise StoreError(f"{where} is damaged: {kind.__name__} lacks {field.name!r}")
    try:
        return kind(**values)
    except (TypeError, ValueError, SpecError) as error:
        raise StoreError(f"{where} is damaged: {error}") from error


def number(value: Any) -> float | None:
    """Return a float that ``plain`` wrote, or None."""
    return None if value is None else float(value)


def numbers(data: Any, path: Path) -> dict[str, float]:
    """Return a mapping of names to floats; raise StoreError where it is none."""
    try:
        return {name: float(value) for name, value in data.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error
