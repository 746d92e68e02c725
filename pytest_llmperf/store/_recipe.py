"""A traffic's recipe as runs and baselines store it, and by what two of them differ."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pytest_llmperf.datasets import DATASETS
from pytest_llmperf.errors import UnknownNameError
from pytest_llmperf.model.traffic import PAIRS, Json, TrafficSpec, freeze, thaw
from pytest_llmperf.store._json import plain
from pytest_llmperf.store._secrets import masked_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_llmperf.model.traffic import Pairs

WITHOUT_PART = ("name", "digest", "max_error_rate", "num_warmups")
"""What no request depends on, or depends on all of them."""
UNSET = "not set"


def recipe_of(spec: TrafficSpec) -> dict[str, Any]:
    """Return a recipe as JSON has it: options as mappings, nested ones too, secrets masked."""
    recipe: dict[str, Any] = {
        field.name: plain(getattr(spec, field.name)) for field in fields(spec)
    }
    for name in PAIRS:
        recipe[name] = plain(masked_mapping(thaw(getattr(spec, name))))
    return recipe


def pairs_of(stored: Any) -> Pairs:
    """Return stored options as a TrafficSpec has them.

    They are a mapping, or of older runs pairs, in which a nested value is JSON text. Raise
    TypeError or ValueError for what is neither.
    """
    if isinstance(stored, Mapping):
        return freeze(stored)
    return tuple((str(name), _older(value)) for name, value in stored)


def recipe_differences(stored: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return ``field: stored → here`` for each part that a request may depend on.

    Options are told one by one. A field that one of the two lacks, since an older version wrote
    it, was at its default; so was an option of the dataset, where it has that one. Any other
    option that one of them lacks was not set.
    """
    dataset = str(here.get("dataset"))
    default = recipe_of(TrafficSpec("x", dataset))
    beside = sorted((stored.keys() | here.keys()) - default.keys())
    different: list[str] = []
    for name in (*sorted(default), *beside):
        before, after = (recipe.get(name, default.get(name)) for recipe in (stored, here))
        if name in WITHOUT_PART:
            continue
        if name in PAIRS:
            different += _options(name, before, after, dataset)
        elif before != after:
            different.append(f"{name}: {before} → {after}")
    return different


def _options(name: str, stored: Any, here: Any, dataset: str) -> Iterator[str]:
    try:
        before, after = (plain(thaw(pairs_of(options))) for options in (stored, here))
    except (TypeError, ValueError):  # edited by hand
        yield f"{name}: {stored} → {here}"
        return
    filled_in = name == "dataset_options" and before.keys() != after.keys()
    default = _defaults(dataset) if filled_in else {}
    for key in sorted(before.keys() | after.keys()):
        there, now = (options.get(key, default.get(key, UNSET)) for options in (before, after))
        if there != now:
            yield f"{name}.{key}: {before.get(key, UNSET)} → {after.get(key, UNSET)}"


def _defaults(dataset: str) -> dict[str, Any]:
    """Return the options that a dataset's constructor need not be given, at what they are then.

    None of a dataset that is not installed, or has no constructor of its name.
    """
    with suppress(UnknownNameError, ImportError, AttributeError):
        constructor = getattr(DATASETS.module(dataset), dataset)
        options = {
            parameter.name: parameter.default
            for parameter in inspect.signature(constructor).parameters.values()
            if parameter.default is not parameter.empty
        }
        defaults: dict[str, Any] = plain(thaw(freeze(options)))
        return defaults
    return {}


def _older(value: Any) -> Any:
    """Return an option of an older run as it was frozen."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            ((_, frozen),) = freeze({"": json.loads(value)})
            return frozen if isinstance(frozen, Json) and str(frozen) == value else value
    return tuple(map(_older, value)) if isinstance(value, list) else value
