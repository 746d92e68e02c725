"""From a recipe to its requests: the dataset's prompts at the arrival process's times."""

from __future__ import annotations

from pytest_llmperf.arrivals import ARRIVALS
from pytest_llmperf.datasets import DATASETS
from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.traffic import Request, Tokenizer, Traffic, TrafficSpec


def build_traffic(spec: TrafficSpec, tokenizer: Tokenizer) -> Traffic:
    """Return the requests of a recipe, with their digest.

    ``tokenizer`` counts the tokens of texts where the dataset needs it. Raise UnknownNameError
    for a dataset or arrival process that does not exist, SpecError for options that cannot be,
    DatasetError for a file of no use.
    """
    dataset = DATASETS[spec.dataset]
    # The schedule first: a mistyped option of it is found before a large file is read.
    due_ns = ARRIVALS[spec.arrival].due_ns(spec)
    drawn = dataset.prompts(spec, tokenizer)
    for what, count in (("dataset", len(drawn.prompts)), ("arrival", len(due_ns))):
        if count != spec.num_prompts:
            raise SpecError(
                f"traffic {spec.name!r}: {what} {getattr(spec, what)!r} made {count} of the "
                f"{spec.num_prompts} requests asked for; this is a mistake in its module"
            )
    requests = tuple(
        Request(index, due, prompt)
        for index, (due, prompt) in enumerate(zip(due_ns, drawn.prompts, strict=True))
    )
    return Traffic(spec, requests, counted_by=drawn.counted_by, notes=drawn.notes)
