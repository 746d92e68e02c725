"""Prompts made of token ids: what the synthetic datasets share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pytest_llmperf.model.options import is_count, options_from, require

if TYPE_CHECKING:
    from pytest_llmperf.model.traffic import TrafficSpec


COUNTED_BY = "token ids"
"""What counted the tokens of a prompt that is token ids: nothing had to."""

DEFAULT_IDS = (1_000, 31_000)
"""Ids from the first up to, not including, the second.

Every common vocabulary has them (the smallest, Llama 2's, ends at 32,000), and none keeps its
special tokens there.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIdOptions:
    """What the options of every dataset of token ids have."""

    token_ids: tuple[int, int] = DEFAULT_IDS


T = TypeVar("T", bound=TokenIdOptions)


def owner_of(spec: TrafficSpec) -> str:
    """Return how a message names the dataset of a traffic."""
    return f"traffic {spec.name!r}, dataset {spec.dataset!r}"


def read_options(
    spec: TrafficSpec, options: type[T], *, counts: tuple[str, ...], at_least_1: tuple[str, ...]
) -> T:
    """Return the options of a dataset of token ids, with the rules that all of them have.

    ``counts`` and ``at_least_1`` name its options that are numbers of things. Raise SpecError where one is not, where ids cannot be drawn from
    ``token_ids``, and where the endpoint does not take ids.
    """
    read = options_from(owner_of(spec), spec.dataset_options, options)
    values = {name: getattr(read, name) for name in (*counts, *at_least_1)}
    token_ids: object = read.token_ids
    require(
        owner_of(spec),
        (
            spec.endpoint == "completions",
            (
                f"its prompts are token ids, which the {spec.endpoint} endpoint does not take; use "
                "endpoint='completions', or a dataset of texts such as sharegpt"
            ),
        ),
        (
            isinstance(token_ids, tuple)
            and len(token_ids) == len(DEFAULT_IDS)
            and all(is_count(bound) for bound in token_ids)
            and token_ids[0] < token_ids[1],
            f"token_ids is {token_ids!r}, not (first, end) with 0 <= first < end",
        ),
        *(
            (is_count(values[n], 1), f"{n} is {values[n]!r}, at least 1 is needed")
            for n in at_least_1
        ),
        *((is_count(values[n]), f"{n} is {values[n]!r}, not a count") for n in counts),
    )
    return read


def draw_ids(
    state: np.random.RandomState, token_ids: tuple[int, int], length: int
) -> tuple[int, ...]:
    """Return ``length`` ids drawn evenly from [first, end).

    RandomState, not Generator: its stream is frozen for every version of numpy, and with it
    the digest of the traffic.
    """
    return tuple(state.randint(*token_ids, size=length, dtype=np.int64).tolist())
