"""The nights of a baseline: one more, their noise, and the first of them pinned."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pytest_llmperf.model.answers import ANSWERS, RANDOM
from pytest_llmperf.model.baseline import Night
from pytest_llmperf.model.noise import estimate_noise, night_mean
from pytest_llmperf.model.verdict import Noise

NOISE_NIGHTS = 10
"""A file's noise is that of the nights it is compared with: the last ten accepted."""

logger = logging.getLogger(__name__)


def with_night(nights: Sequence[Night], night: Night) -> tuple[Night, ...]:
    """Return the nights, oldest first, with one more, or with more launches in one."""
    same = [n for n in nights if (n.date, n.host) == (night.date, night.host)]
    if not same:
        return tuple(sorted([*nights, night], key=lambda n: n.date))
    return tuple(_merged(n, night) if n is same[0] else n for n in nights)


def _merged(night: Night, more: Night) -> Night:
    """Append the launches of a second session. Its provenance is kept, all runs are named.

    What it does not say is still the first session's word, but for whose answers they are.
    """
    runs = [*_runs(night)]
    if any(run in runs for run in _runs(more)):
        logger.info("run %s is in the night of %s already", more.provenance["run"], night.date)
        return night
    runs += _runs(more)
    figures = {
        figure: (*night.figures.get(figure, ()), *more.figures.get(figure, ()))
        for figure in night.figures.keys() | more.figures.keys()
    }
    before = dict(night.provenance)
    if ANSWERS in more.provenance:
        before.pop(RANDOM, None)
    provenance = {**before, **more.provenance}
    if len(runs) > 1:
        provenance["runs"] = runs
    return replace(night, figures=figures, provenance=provenance)


def _runs(night: Night) -> list[str]:
    run = night.provenance.get("run")
    return list(night.provenance.get("runs", [run] if run else []))


def noise_of(nights: Sequence[Night]) -> dict[str, Noise]:
    """Return the noise of every figure that at least two nights have and that has a logarithm."""
    found = {}
    nights = nights[-NOISE_NIGHTS:]
    for figure in sorted({name for night in nights for name in night.figures}):
        values = [night.figures[figure] for night in nights if night.figures.get(figure)]
        if all(value > 0 for launches in values for replays in launches for value in replays):
            noise = estimate_noise(values, figure)
            if noise:
                found[figure] = noise
    return found


def anchor_of(night: Night) -> dict[str, Any]:
    """Pin a night: what creep is measured from until somebody moves it, and says why."""
    return {
        "date": night.date,
        "host": night.host,
        "accepted_at": night.provenance.get("accepted_at", night.date),
        "accepted_by": night.provenance.get("accepted_by", "unknown"),
        "reason": "first accepted night",
        "figures": {
            figure: float(f"{night_mean(values):.6g}")
            for figure, values in night.figures.items()
            if values
        },
    }
