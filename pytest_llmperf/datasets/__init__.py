"""Datasets: what the prompts are. One module each, with a ``DATASET`` and its constructor.

A dataset is a recipe's first half: it answers with exactly ``spec.num_prompts`` prompts that
depend on the spec, the file it reads and the tokenizer alone, so that any process makes the
same bytes: randomness comes from generators of its own, seeded with ``spec.seed``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pytest_llmperf.catalog import Catalog

if TYPE_CHECKING:
    from pytest_llmperf.model.traffic import Prompt, Tokenizer, TrafficSpec


@dataclass(frozen=True, slots=True)
class Drawn:
    """The prompts drawn, and what a reader must know of them.

    ``notes`` are said wherever the traffic is shown: a file that is cut off, prompts that
    repeat. ``counted_by`` names what counted ``prompt_tokens``. ``recorded_ns``: when each
    request came in what was recorded, after the first (a trace); the arrival process ``trace``
    sends them then.
    """

    prompts: tuple[Prompt, ...]
    notes: tuple[str, ...] = ()
    counted_by: str = "none"
    recorded_ns: tuple[int, ...] | None = None


class Dataset(Protocol):
    """Makes the prompts of a TrafficSpec."""

    def prompts(self, spec: TrafficSpec, tokenizer: Tokenizer) -> Drawn:
        """Return ``spec.num_prompts`` prompts.

        Raise SpecError for ``spec.dataset_options`` that cannot be, and DatasetError for a
        file that is missing or of no use.
        """


DATASETS: Catalog[Dataset] = Catalog("dataset", "pytest_llmperf.datasets")
"""Every dataset by name."""
