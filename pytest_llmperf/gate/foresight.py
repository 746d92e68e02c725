"""What a night will be able to see, told before it is measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate._comparison import Comparison, mean
from pytest_llmperf.gate.assumed import assumed_sd
from pytest_llmperf.gate.history import Evidence
from pytest_llmperf.gate.rule import Rule, check_alpha
from pytest_llmperf.model.noise import Launches, launch_logs
from pytest_llmperf.model.verdict import Noise, NoiseSource

JUST_BELOW = 1 - 1e-9
"""What is assumed must not look like a warning that launches differ by more than assumed."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """What one figure's judgement will see.

    ``smallest_detectable_change``: the loss, as a share, that would be called REGRESSED with
    95 % probability (``rule.confidence``). ``nights``: the accepted nights compared with.
    """

    smallest_detectable_change: float
    noise: NoiseSource
    nights: int


def foresee(
    launches: int,
    baseline: Sequence[Launches],
    *,
    figure: str = "output_tps",
    higher_is_better: bool = True,
    rule: Rule = Rule(),  # noqa: B008 - a frozen value
    noise: Noise | None = None,
    alpha: float | None = None,
) -> Foresight:
    """Return what ``judge_values`` will report of so many ``launches`` against these nights.

    The arguments are those of ``judge_values``. It is exact where tonight's launches differ as
    the accepted ones do (as assumed, where those tell nothing); how far they will is not known
    beforehand. Raise SpecError without launches or nights, and for values without a logarithm.
    """
    if launches < 1 or not baseline:
        raise SpecError(f"{figure}: nothing can be foreseen without a launch and a night")
    alpha = check_alpha(rule.alpha if alpha is None else alpha)
    sign = -1.0 if higher_is_better else 1.0
    nights = [
        [sign * y for y in launch_logs(night, figure, f"baseline night {number}")]
        for number, night in enumerate(baseline, 1)
    ]
    compared = nights[-rule.max_nights :]
    center = mean([mean(night) for night in compared])
    assumed = assumed_sd(figure) if rule.assumed_sd is None else rule.assumed_sd
    # One launch tells nothing of how launches differ: what is known without tonight's.
    before = Evidence.of([center], compared, noise, assumed, rule)
    sd = _between_launches(compared)
    if sd is None:
        sd = before.noise(launches).launch_sd * JUST_BELOW
    evidence = Evidence.of(_launches(launches, center, sd), compared, noise, assumed, rule)
    case = Comparison.of(evidence, nights, alpha)
    seen = abs(math.expm1(sign * case.detectable))
    return Foresight(seen, case.noise.source, case.nights)


def _between_launches(nights: Sequence[Sequence[float]]) -> float | None:
    """Return the standard deviation between launches of a night; None where nights have one."""
    df = sum(len(night) - 1 for night in nights)
    squares = sum((y - mean(night)) ** 2 for night in nights for y in night)
    return math.sqrt(squares / df) if df else None


def _launches(count: int, center: float, sd: float) -> list[float]:
    """Return so many values of that mean and standard deviation: two apart, the others between."""
    if count == 1:
        return [center]
    apart = sd * math.sqrt((count - 1) / 2)  # 2 · apart² / (count - 1) = sd²
    return [center - apart, center + apart, *[center] * (count - 2)]
