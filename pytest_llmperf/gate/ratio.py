"""What a change of configuration must bring, or may cost: a ratio by launch pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate._student import student
from pytest_llmperf.gate._words import count, level
from pytest_llmperf.gate.assumed import ASSUMED_DF, assumed_sd
from pytest_llmperf.gate.rule import Rule
from pytest_llmperf.model.noise import launch_logs
from pytest_llmperf.model.verdict import Finding, NoiseSource, Status

Pair = tuple[Sequence[float], Sequence[float]]
"""The replays of a reference launch and of the candidate launch beside it."""
MOST_PAIRS = 100
ROUNDING = 1e-9
"""A ratio that is the limit itself reaches it, however its logarithms come out."""


def judge_ratio(
    pairs: Sequence[Pair],
    *,
    figure: str,
    higher_is_better: bool,
    at_least: float | None = None,
    at_most: float | None = None,
    exact: bool = False,
    rule: Rule = Rule(),  # noqa: B008 - a frozen value
) -> Finding:
    """Judge the ratio candidate / reference by launch pairs, in the order measured.

    Each pair gives one log-ratio of its launches' means over replays, so that what both
    launches share (host, hour, temperature) cancels. The mean of the log-ratios has a Student
    t with pairs − 1 degrees of freedom; its one-sided 95 % bounds (``rule.confidence``) are
    compared with ``at_least`` and ``at_most``: PASSED where the bound is on the good side of
    every limit, REGRESSED where the opposite bound is beyond one, INCONCLUSIVE (``open``)
    between, with the pairs that would decide as ``launches_needed``. A single pair shows no
    noise: √2 times the figure's assumed one is taken. An ``exact`` figure has none: its ratio
    is the bound, and one pair decides.

    ``change`` is ratio − 1, ``interval`` its two-sided 90 % interval and ``launches`` the
    pairs. Raises SpecError without pairs or limits, and for values without a logarithm.
    """
    limits = _limits(figure, at_least, at_most)
    case, reference, candidate = _case(pairs, figure, rule, exact=exact)
    statuses = [case.against(limit) for limit in limits]
    status = Status.worst(statuses)
    deciding = limits[statuses.index(status)]
    is_open = status is Status.INCONCLUSIVE
    return replace(
        _finding(case, figure, reference, candidate, pairs),
        status=status,
        reason=_reason(case, status, deciding, higher_is_better=higher_is_better),
        launches_needed=case.pairs_needed(limits) if is_open else None,
        open=is_open,
        expected=True,
    )


def record_ratio(
    pairs: Sequence[Pair],
    *,
    figure: str,
    higher_is_better: bool,
    exact: bool = False,
    rule: Rule = Rule(),  # noqa: B008 - a frozen value
) -> Finding:
    """Return the ratio candidate / reference as a finding that judges nothing: PASSED.

    Ratio, interval and noise as ``judge_ratio`` takes them; an ``exact`` figure has no noise.
    Raises SpecError without pairs, and for values without a logarithm.
    """
    case, reference, candidate = _case(pairs, figure, rule, exact=exact)
    seen = _seen(case, higher_is_better=higher_is_better)
    return replace(
        _finding(case, figure, reference, candidate, pairs),
        reason=f"{seen}: recorded, nothing was asked of it",
    )


@dataclass(frozen=True, slots=True)
class _Limit:
    """``lower``: the ratio must reach ``ratio``; otherwise it must not exceed it."""

    ratio: float
    lower: bool

    def __str__(self) -> str:
        return f"at {'least' if self.lower else 'most'} {self.ratio:g} times"


@dataclass(frozen=True, slots=True)
class _Paired:
    """Log-ratios: how many, their mean, and the standard deviation of one."""

    pairs: int
    mean: float
    sd: float
    df: float
    source: NoiseSource
    confidence: float

    def margin(self, pairs: int | None = None) -> float:
        """From the mean to either bound, with the pairs there are or so many."""
        if pairs is None:
            return student(self.confidence, self.df) * self.sd / math.sqrt(self.pairs)
        return student(self.confidence, pairs - 1) * self.sd / math.sqrt(pairs)

    def against(self, limit: _Limit, margin: float | None = None) -> Status:
        """Return what the bounds say of one limit."""
        margin = self.margin() if margin is None else margin
        beyond = self.mean - math.log(limit.ratio)
        spare = beyond if limit.lower else -beyond
        if spare - margin >= -ROUNDING:
            return Status.PASSED
        return Status.REGRESSED if spare + margin < -ROUNDING else Status.INCONCLUSIVE

    def pairs_needed(self, limits: Sequence[_Limit]) -> int | None:
        """Return the fewest pairs that would decide at this ratio and noise, if any would."""
        for pairs in range(self.pairs + 1, MOST_PAIRS + 1):
            margin = self.margin(pairs)
            if Status.worst([self.against(li, margin) for li in limits]) != Status.INCONCLUSIVE:
                return pairs
        return None


def _case(
    pairs: Sequence[Pair], figure: str, rule: Rule, *, exact: bool
) -> tuple[_Paired, float, float]:
    """Return the log-ratios, and the mean of either side in the figure's unit."""
    if not pairs:
        raise SpecError(f"{figure}: no launch pairs to take a ratio of; at least one is needed")
    reference, candidate = (
        launch_logs(side, figure, where)
        for side, where in zip(zip(*pairs, strict=True), ("reference", "candidate"), strict=True)
    )
    ratios = [c - r for r, c in zip(reference, candidate, strict=True)]
    count_of = len(ratios)
    return (
        _paired(ratios, figure, rule, exact=exact),
        math.exp(sum(reference) / count_of),
        math.exp(sum(candidate) / count_of),
    )


def _finding(
    case: _Paired, figure: str, reference: float, candidate: float, pairs: Sequence[Pair]
) -> Finding:
    """Return what was measured, not judged yet."""
    low, high = case.mean - case.margin(), case.mean + case.margin()
    return Finding(
        figure,
        Status.PASSED,
        "",
        kind="ratio",
        value=candidate,
        reference=reference,
        change=math.expm1(case.mean),
        interval=(math.expm1(low), math.expm1(high)),
        noise=case.source,
        launches=case.pairs,
        replays=max(len(row) for pair in pairs for row in pair),
    )


def _limits(figure: str, at_least: float | None, at_most: float | None) -> list[_Limit]:
    found = [
        _Limit(ratio, lower)
        for ratio, lower in ((at_least, True), (at_most, False))
        if ratio is not None
    ]
    if not found:
        raise SpecError(f"{figure}: a ratio is judged by a limit; give at_least, at_most or both")
    for limit in found:
        if not 0 < limit.ratio < math.inf:
            raise SpecError(f"{figure}: a ratio of {limit.ratio!r} cannot be; it is above 0")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise SpecError(f"{figure}: no ratio is at least {at_least:g} and at most {at_most:g}")
    return found


def _paired(ratios: Sequence[float], figure: str, rule: Rule, *, exact: bool) -> _Paired:
    pairs = len(ratios)
    mean = sum(ratios) / pairs
    if exact:
        return _Paired(pairs, mean, 0.0, ASSUMED_DF, "exact", rule.confidence)
    if pairs > 1:
        sd = math.sqrt(sum((ratio - mean) ** 2 for ratio in ratios) / (pairs - 1))
        return _Paired(pairs, mean, sd, pairs - 1, "measured", rule.confidence)
    share = assumed_sd(figure) if rule.assumed_sd is None else rule.assumed_sd
    return _Paired(1, mean, share * math.sqrt(2), ASSUMED_DF, "assumed", rule.confidence)


def _seen(case: _Paired, *, higher_is_better: bool) -> str:
    good = (case.mean > 0) is higher_is_better
    kind = "neither gain nor loss" if case.mean == 0 else "a gain" if good else "a loss"
    if case.source == "exact":
        return f"{math.exp(case.mean):.4g} times the reference, {kind}"
    low, high = math.exp(case.mean - case.margin()), math.exp(case.mean + case.margin())
    width = level(2 * (1 - case.confidence))
    assumed = ", noise assumed" if case.source == "assumed" else ""
    return (
        f"{math.exp(case.mean):.3g} times the reference, {kind} ({width} interval {low:.3g} to "
        f"{high:.3g}, {count(case.pairs, 'pair')}{assumed})"
    )


def _reason(case: _Paired, status: Status, limit: _Limit, *, higher_is_better: bool) -> str:
    seen = _seen(case, higher_is_better=higher_is_better)
    if status is Status.PASSED:
        return f"{seen}: {limit} as asked"
    if status is Status.REGRESSED:
        return f"{seen}: not {limit} as asked"
    needed = case.pairs_needed([limit])
    cure = (
        f"{count(needed, 'pair')} would decide" if needed else "too close to decide by more pairs"
    )
    return f"{seen}: whether {limit}, as asked, is open; {cure}"
