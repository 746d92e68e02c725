"""Mappings as sorted pairs, which can be hashed and compared: what a frozen recipe holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Pairs = tuple[tuple[str, Any], ...]


def freeze(mapping: Mapping[str, Any]) -> Pairs:
    """Return the mapping as sorted pairs, nested ones too, so that it can be hashed."""
    return tuple((key, _frozen(value)) for key, value in sorted(mapping.items()))


class Json(str):
    """A nested value as JSON text, which can be hashed; :func:`thaw` reads it back.

    It equals no plain text, not even its own: a server is sent an object, and not a text.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:  # str has one of its own
        return not self == other

    def __hash__(self) -> int:
        return hash((Json, str(self)))


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Json(json.dumps(value, sort_keys=True))
    if isinstance(value, list):
        nested = any(isinstance(item, Mapping | list) for item in value)
        return Json(json.dumps(value, sort_keys=True)) if nested else tuple(value)
    return value


def thaw(pairs: Pairs) -> dict[str, Any]:
    """Return the mapping that was frozen, as plain JSON values."""
    return {key: _thawed(value) for key, value in pairs}


def _thawed(value: Any) -> Any:
    if isinstance(value, Json):
        return json.loads(value)
    return list(value) if isinstance(value, tuple) else value


def told_apart(pairs: Pairs) -> list[Any]:
    """Return the pairs with a mark on every text that is a nested value's, letter for letter.

    :class:`Json` enters the digest as its text, so that older digests stay what they were.
    """
    return [(key, {"text": value} if _reads_nested(value) else value) for key, value in pairs]


def _reads_nested(value: Any) -> bool:
    if not isinstance(value, str) or isinstance(value, Json):
        return False
    try:
        nested = _frozen(json.loads(value))
    except (ValueError, RecursionError):
        return False
    return isinstance(nested, Json) and str(nested) == value
