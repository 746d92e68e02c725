"""Options of a dataset or an arrival process: read from a spec's pairs into a typed value."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_llmperf.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import DataclassInstance

    from pytest_llmperf.model.traffic import Pairs

T = TypeVar("T", bound="DataclassInstance")


def options_from(owner: str, pairs: Pairs, options: type[T]) -> T:
    """Return the dataclass ``options`` filled from ``pairs``.

    ``owner`` opens the message of the SpecError for an option that the dataclass does not
    have, or for one without a default that ``pairs`` lacks: ``"traffic 'chat', dataset
    'random'"``.
    """
    values: Mapping[str, Any] = dict(pairs)
    known = {field.name: field for field in fields(options)}
    for name in values:
        if name not in known:
            choices = ", ".join(sorted(known)) or "none"
            raise SpecError(f"{owner}: unknown option {name!r}. Known: {choices}")
    for name, field in known.items():
        if name not in values and field.default is MISSING:
            raise SpecError(f"{owner}: option {name!r} is needed")
    return options(**values)


def require(owner: str, *rules: tuple[bool, str]) -> None:
    """Raise SpecError with the complaint of the first (holds, complaint) that does not hold."""
    for holds, complaint in rules:
        if not holds:
            raise SpecError(f"{owner}: {complaint}")


def is_count(value: object, at_least: int = 0) -> bool:
    """Whether ``value`` is a whole number of at least that much; True is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def is_number(value: object) -> bool:
    """Whether ``value`` is a number that can be compared: not NaN, not a bool. inf is one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
