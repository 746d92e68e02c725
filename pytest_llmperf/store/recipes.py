"""Finding what is stored by a traffic's recipe, before the traffic itself is built.

A digest needs every prompt, and with them a dataset's file and a model's tokenizer. For a plan
the recipe is enough: the same recipe on the same files makes the same requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pytest_llmperf.errors import BaselineError
from pytest_llmperf.model.traffic import TrafficSpec, thaw
from pytest_llmperf.store._json import plain
from pytest_llmperf.store._secrets import masked_mapping
from pytest_llmperf.store.baselines import BaselineStore, NoBaseline, read_baseline

if TYPE_CHECKING:
    from pytest_llmperf.model.baseline import Baseline
    from pytest_llmperf.model.machine import Machine

PAIRS = ("dataset_options", "arrival_options", "sampling", "extra_body", "headers")
WITHOUT_PART = ("name", "max_error_rate", "num_warmups")
"""Fields of a recipe that no request depends on."""


def machines(store: BaselineStore) -> dict[str, Machine]:
    """Return the machines that baselines are stored of, by their folder's name.

    Damaged files are passed over: whoever needs them is told then.
    """
    found: dict[str, Machine] = {}
    for path in store.files():
        if path.parts[-3] not in found:
            with suppress(BaselineError):
                found[path.parts[-3]] = read_baseline(path).machine
    return found


def stored_baseline(
    store: BaselineStore,
    machine: Machine,
    server: str,
    traffic: TrafficSpec,
    *,
    against: str | None = None,
) -> Baseline | NoBaseline:
    """Return the baseline that this traffic will be judged against, as far as its recipe tells.

    ``against``: the server that ratios are to, where it is them that are judged. Raise
    BaselineError for a file that is damaged or newer.
    """
    path = store.path(machine, server, traffic.name, against=against)
    if not path.exists():
        return store.find(machine, server, traffic.name, "", against=against)  # which says why
    stored = read_baseline(path)
    if different := differences(traffic, stored.traffic):
        return NoBaseline(
            f"{traffic.name} is another traffic than the stored one (stored → here): "
            f"{', '.join(different)}"
        )
    return store.find(machine, server, traffic.name, stored.traffic_digest, against=against)


def differences(traffic: TrafficSpec, stored: Mapping[str, Any]) -> list[str]:
    """Return ``field: stored → here`` for each part of a stored recipe that is not this one's.

    A field that an older version did not store was at its default. A dataset's option that it
    did not know says nothing: the dataset has changed, its requests need not have.
    """
    default = TrafficSpec(traffic.name, traffic.dataset)
    different = []
    for name in _fields():
        here, standard = _written(traffic, name), _written(default, name)
        there = stored.get(name, standard)
        if name in PAIRS:
            there = dict(there)  # a baseline has a mapping, a run has pairs
            keys = sorted(k for k in there if k not in here or here[k] != there[k])
            different += [f"{name}.{k}: {there[k]} → {here.get(k)}" for k in keys]
        elif here != there:
            different.append(f"{name}: {there} → {here}")
    return different


def _fields() -> tuple[str, ...]:
    return tuple(name for name in TrafficSpec.__slots__ if name not in WITHOUT_PART)


def _written(traffic: TrafficSpec, name: str) -> Any:
    """Return a field as JSON has it; options as a mapping."""
    value = getattr(traffic, name)
    return plain(masked_mapping(thaw(value)) if name in PAIRS else value)
