"""Finding what is stored by a traffic's recipe, before the traffic itself is built.

A digest needs every prompt, and with them a dataset's file and a model's tokenizer. For a plan
the recipe is enough: the same recipe on the same files makes the same requests.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pytest_llmperf.errors import BaselineError
from pytest_llmperf.store._recipe import recipe_differences, recipe_of
from pytest_llmperf.store.baselines import BaselineStore, NoBaseline, read_baseline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_llmperf.model.baseline import Baseline
    from pytest_llmperf.model.machine import Machine
    from pytest_llmperf.model.traffic import TrafficSpec

__all__ = ["differences", "machines", "recipe_differences", "recipe_of", "stored_baseline"]


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

    What only a built traffic knows is no part of it.
    """
    here = recipe_of(traffic)
    return recipe_differences({k: v for k, v in stored.items() if k in here}, here)
