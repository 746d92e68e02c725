"""From a recipe to its requests: the dataset's prompts at the arrival process's times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_llmperf.arrivals import ARRIVALS
from pytest_llmperf.datasets import DATASETS
from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.traffic import Request, Tokenizer, Traffic, TrafficSpec

if TYPE_CHECKING:
    from collections.abc import Sized

    from pytest_llmperf.datasets import Drawn

FROM_RECORDED = "trace"
"""The arrival process that knows no times of its own: it takes those of the dataset."""


def build_traffic(spec: TrafficSpec, tokenizer: Tokenizer) -> Traffic:
    """Return the requests of a recipe, with their digest.

    The arrival process schedules what waits for no answer: the first turns of conversations,
    so that ``request_rate`` is that of conversations. ``tokenizer`` counts the tokens of texts
    where the dataset needs it. Raise UnknownNameError for a dataset or arrival process that
    does not exist, SpecError for options that cannot be, DatasetError for a file of no use.
    """
    dataset, arrival = DATASETS[spec.dataset], ARRIVALS[spec.arrival]
    if spec.arrival != FROM_RECORDED:
        arrival.due_ns(spec)  # a mistyped option of it is found before a large file is read
    drawn = dataset.prompts(spec, tokenizer)
    _require(spec, "dataset", spec.num_prompts, drawn.prompts)
    if drawn.recorded_ns is not None:
        _require(spec, "dataset", spec.num_prompts, drawn.recorded_ns)
    requests = _scheduled(spec, drawn)
    return Traffic(spec, requests, counted_by=drawn.counted_by, notes=drawn.notes)


def _scheduled(spec: TrafficSpec, drawn: Drawn) -> tuple[Request, ...]:
    """Return the prompts with their due times: 0 where they wait for another's answer."""
    first = [index for index, prompt in enumerate(drawn.prompts) if prompt.after is None]
    recorded = drawn.recorded_ns
    if recorded is not None:
        recorded = tuple(recorded[index] for index in first)
    starts = replace(spec, num_prompts=max(len(first), 1))
    due_ns = ARRIVALS[spec.arrival].due_ns(starts, recorded)
    _require(spec, "arrival", starts.num_prompts, due_ns)
    due = dict(zip(first, due_ns, strict=False))
    return tuple(
        Request(index, due.get(index, 0), prompt) for index, prompt in enumerate(drawn.prompts)
    )


def _require(spec: TrafficSpec, what: str, count: int, made: Sized) -> None:
    """Raise SpecError where a dataset or an arrival process made another number than asked."""
    if len(made) != count:
        raise SpecError(
            f"traffic {spec.name!r}: {what} {getattr(spec, what)!r} made {len(made)} of the "
            f"{count} requests asked for; this is a mistake in its module"
        )
