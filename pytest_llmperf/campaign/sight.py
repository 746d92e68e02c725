"""What the judgement against accepted nights will be able to see, figure by figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_llmperf.campaign.judge import Gate
from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate import EXACT_TOLERANCE
from pytest_llmperf.gate.foresight import foresee
from pytest_llmperf.model.baseline import Baseline, Values
from pytest_llmperf.model.metric import Figure
from pytest_llmperf.model.verdict import Noise
from pytest_llmperf.store.baselines import NoBaseline

ABSENT = "not in the baseline"


@dataclass(frozen=True)
class FigureSight:
    """One figure to be judged.

    ``seen``: the smallest detectable change, a share; None where ``note`` says why there is
    none (``ABSENT``: the server did not have it either, perhaps). ``noise`` is ``exact`` for
    what has none.
    """

    name: str
    tolerance: float
    seen: float | None = None
    noise: str = "none"
    note: str = ""

    @property
    def gateable(self) -> bool:
        """Whether a loss as large as the tolerance would be seen."""
        return self.seen is not None and self.seen <= self.tolerance


@dataclass(frozen=True)
class Sight:
    """All figures of one traffic. ``missing``: why there is no baseline, empty where there is.

    Without a baseline the figures are what the next night will see, once this one is accepted.
    """

    figures: tuple[FigureSight, ...]
    nights: int
    missing: str = ""


def sight_of(
    gate: Gate,
    baseline: Baseline | NoBaseline,
    launches: int,
    noise: Callable[[str], Noise | None],
) -> Sight:
    """Return what so many launches, or launch pairs, will see. ``noise``: pooled, by figure."""
    if isinstance(baseline, Baseline):
        stored = {of.name: baseline.values(of.name) for of in gate.figures}
        nights, missing = len(baseline.nights), ""
    else:
        night: Values = ((1.0,),) * launches
        stored = {of.name: (night,) for of in gate.figures}
        nights, missing = 0, baseline.reason
    figures = (_figure(of, gate, stored[of.name], launches, noise) for of in gate.figures)
    return Sight(tuple(figures), nights, missing)


def _figure(
    of: Figure,
    gate: Gate,
    stored: tuple[Values, ...],
    launches: int,
    noise: Callable[[str], Noise | None],
) -> FigureSight:
    rule = gate.rule(of)
    if not stored:
        return FigureSight(of.name, rule.tolerance, note=ABSENT)
    if of.exact:
        tolerance = gate.tolerances.get(of.name, EXACT_TOLERANCE)
        return FigureSight(of.name, tolerance, tolerance, "exact")
    try:
        seen = foresee(
            launches,
            stored,
            figure=of.name,
            higher_is_better=of.higher_is_better,
            rule=rule,
            noise=noise(of.name),
            alpha=gate.alpha,
        )
    except SpecError as error:  # such as a 0, which has no logarithm
        return FigureSight(of.name, rule.tolerance, note=str(error))
    return FigureSight(of.name, rule.tolerance, seen.smallest_detectable_change, seen.noise)
