"""Stage 1: tonight against the nights that were accepted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_llmperf.gate._comparison import Comparison, mean
from pytest_llmperf.gate._words import count, level, moved, percent
from pytest_llmperf.gate.assumed import assumed_sd
from pytest_llmperf.gate.history import Evidence
from pytest_llmperf.gate.rule import Rule, check_alpha
from pytest_llmperf.model.noise import Launches, launch_logs
from pytest_llmperf.model.verdict import Finding, Noise, Status


def judge_values(
    candidate: Launches,
    baseline: Sequence[Launches],
    *,
    figure: str = "output_tps",
    higher_is_better: bool = True,
    rule: Rule = Rule(),  # noqa: B008 - a frozen value
    noise: Noise | None = None,
    alpha: float | None = None,
) -> Finding:
    """Judge tonight's values of a figure against its accepted nights.

    ``candidate``: launches × replays; ``baseline``: nights × launches × replays, oldest first.
    ``noise``: of night means in y = log(value), pooled over this machine's nights, these among
    them (None: from the nights given). It is used where it has more degrees of freedom than
    these nights, unless they are noisier than it lets them be. ``alpha``: false alarms allowed
    (None: the rule's).

    A replay gives one value, a launch the mean of its replays' logarithms, a night the mean of
    its launches. D = tonight − mean of the last ``rule.max_nights`` nights, signed so that + is
    a loss; its standard error is sd of night means · √(1 + 1/nights); bounds are Student's.

    - IMPROVED: D is below 0 by the bound at alpha, and a gain of the smallest effect at least.
    - REGRESSED: D is above 0 by the bound at alpha, and a loss of the smallest effect at
      least. With fewer than ``rule.min_launches`` launches or ``rule.min_nights`` nights,
      tonight must also be worse than every launch ever accepted.
    - PASSED: the upper 95 % bound (``rule.confidence``) of the loss is below the tolerance.
    - INCONCLUSIVE: none of these; ``open``. ``launches_needed`` is how many launches in one
      night, at the loss and the noise seen, would decide it; None where no number would.
    - NO_BASELINE: no nights are given.

    ``interval`` is two-sided at 1 − 2 · 5 % = 90 %: each end is one of the 95 % bounds.
    ``smallest_detectable_change`` is the loss called REGRESSED with 95 % probability.
    Raises SpecError, naming the figure and the place, for values that have no logarithm.
    """
    alpha = check_alpha(rule.alpha if alpha is None else alpha)
    sign = -1.0 if higher_is_better else 1.0
    tonight = [sign * y for y in launch_logs(candidate, figure, "candidate")]
    nights = [
        [sign * y for y in launch_logs(night, figure, f"baseline night {number}")]
        for number, night in enumerate(baseline, 1)
    ]
    value, launches, replays = (
        math.exp(sign * mean(tonight)),
        len(tonight),
        max(map(len, candidate)),
    )
    if not nights:
        return Finding(
            figure,
            Status.NO_BASELINE,
            f"no accepted night has {figure}",
            value=value,
            launches=launches,
            replays=replays,
        )
    assumed = assumed_sd(figure) if rule.assumed_sd is None else rule.assumed_sd
    evidence = Evidence.of(tonight, nights[-rule.max_nights :], noise, assumed, rule)
    case = Comparison.of(evidence, nights, alpha)
    status = case.status
    low, high = sorted(
        math.expm1(sign * bound) for bound in (case.loss - case.margin, case.loss + case.margin)
    )
    return Finding(
        figure,
        status,
        _reason(case, status, higher_is_better=higher_is_better),
        value=value,
        reference=math.exp(sign * case.center),
        change=math.expm1(sign * case.loss),
        interval=(low, high),
        smallest_detectable_change=abs(math.expm1(sign * case.detectable)),
        launches_needed=case.launches_needed() if status is Status.INCONCLUSIVE else None,
        noise=case.noise.source,
        open=status is Status.INCONCLUSIVE,
        launches=launches,
        replays=replays,
        nights=case.nights,
        tolerance=rule.tolerance,
    )


def _reason(case: Comparison, status: Status, *, higher_is_better: bool) -> str:
    """Say what was seen and what decided, in one sentence."""
    sign = -1.0 if higher_is_better else 1.0
    change = moved(math.expm1(sign * case.loss))
    nights = count(case.nights, "accepted night")
    seen = f"unchanged from {nights}" if change == "unchanged" else f"{change} than {nights}"
    assumed = ", noise assumed" if case.noise.source == "assumed" else ""
    proof, margin = level(case.alpha), level(1 - case.evidence.rule.confidence)

    def share(loss: float) -> str:
        return percent(abs(math.expm1(sign * loss)))

    if status is Status.REGRESSED:
        return (
            f"{seen}: a loss of at least {share(case.loss - case.proof)} ({proof} bound{assumed})"
        )
    if status is Status.IMPROVED:
        return (
            f"{seen}: a gain of at least {share(case.loss + case.proof)} ({proof} bound{assumed})"
        )
    highest = case.loss + case.margin
    if status is Status.PASSED:
        most = f"at most {share(highest)} lost" if highest > 0 else "nothing lost"
        return f"{seen}: {most} ({margin} bound{assumed})"
    inside = ", no worse than launches accepted before" if case.within_accepted else ""
    return (
        f"{seen}{inside}: up to {share(highest)} may be lost, as nights differ by "
        f"{percent(case.noise.sd)}{assumed}; losses from {share(case.detectable)} on would have "
        f"been seen; {_cure(case)} would decide"
    )


def _cure(case: Comparison) -> str:
    launches, nights = case.launches_needed(), case.nights_needed()
    cures = [f"{launches} launches in one night"] if launches else []
    cures += [f"{nights} accepted nights"] if nights else []
    return ", or ".join([*cures, "launches in turn with a reference"])
