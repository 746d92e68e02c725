"""Absolute limits: an SLO is kept or broken by what was measured, not by what changed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate._student import student
from pytest_llmperf.gate._words import count, level, measured
from pytest_llmperf.gate.assumed import ASSUMED_DF, assumed_sd
from pytest_llmperf.gate.rule import Rule
from pytest_llmperf.model.noise import Launches
from pytest_llmperf.model.verdict import Finding, NoiseSource, Status


def judge_limit(
    values: Launches,
    *,
    figure: str,
    upper: bool,
    limit: float,
    text: str = "",
    rule: Rule = Rule(),  # noqa: B008 - a frozen value
) -> Finding:
    """Judge launches × replays of a figure against a limit in the figure's own unit.

    ``upper``: the values must stay below the limit, else above. ``text``: the limit as it was
    written (``"< 200 ms"``); with ``=`` in it the limit itself still keeps it.

    Plain values, not logarithms: an error rate may be 0. The mean over launches of their means
    is compared by its one-sided 95 % bound (``rule.confidence``) from Student's t over the
    launches: SLO_VIOLATED where the bound on the good side is beyond the limit, PASSED where
    the other is within it; between the two the mean decides and the reason says "within noise
    of the limit". A single launch shows no noise: the figure's assumed share of its mean is
    taken. ``reference`` is the limit, ``change`` the mean's distance from it as a share and
    ``interval`` its 90 % interval, both None for a limit of 0. Raises SpecError for values
    that are not finite.
    """
    means = [_launch_mean(row, figure, number) for number, row in enumerate(values, 1)]
    if not means:
        raise SpecError(f"{figure}: no launches to judge by the limit {text or limit}")
    mean = math.fsum(means) / len(means)
    error, df, noise = _error(means, mean, figure, rule)
    margin = student(rule.confidence, df) * error
    inclusive = "=" in text
    keeps = _keeps(mean, upper=upper, limit=limit, inclusive=inclusive)
    nearer = mean + margin if keeps is upper else mean - margin
    sure = _keeps(nearer, upper=upper, limit=limit, inclusive=inclusive) is keeps
    status = Status.PASSED if keeps else Status.SLO_VIOLATED
    return Finding(
        figure,
        status,
        _reason(
            text or f"{'<' if upper else '>'} {measured(limit)}",
            f"{level(1 - rule.confidence)} bound",
            measured(nearer),
            f"{count(len(means), 'launch')}{', noise assumed' if noise == 'assumed' else ''}",
            keeps=keeps,
            sure=sure,
        ),
        kind="slo",
        value=mean,
        reference=limit,
        change=mean / limit - 1 if limit else None,
        interval=_interval(mean, margin, limit),
        noise=noise,
        launches=len(means),
        replays=max(map(len, values)),
    )


def _keeps(value: float, *, upper: bool, limit: float, inclusive: bool) -> bool:
    if value == limit:
        return inclusive
    return (value < limit) is upper


def _error(
    means: Sequence[float], mean: float, figure: str, rule: Rule
) -> tuple[float, float, NoiseSource]:
    df = len(means) - 1
    if df:
        sd = math.sqrt(sum((value - mean) ** 2 for value in means) / df)
        return sd / math.sqrt(len(means)), df, "measured"
    share = assumed_sd(figure) if rule.assumed_sd is None else rule.assumed_sd
    return abs(mean) * share, ASSUMED_DF, "assumed"


def _interval(mean: float, margin: float, limit: float) -> tuple[float, float] | None:
    if not limit:
        return None
    low, high = sorted(((mean - margin) / limit - 1, (mean + margin) / limit - 1))
    return low, high


def _reason(text: str, bound: str, at: str, evidence: str, *, keeps: bool, sure: bool) -> str:
    what = f"{'keeps' if keeps else 'breaks'} the limit {text!r}"
    if sure:
        return f"{what} by its {bound}, {at} ({evidence})"
    return (
        f"{what} by its mean, but lies within noise of the limit: the {bound} is {at} ({evidence})"
    )


def _launch_mean(replays: Sequence[float], figure: str, launch: int) -> float:
    if not replays:
        raise SpecError(f"{figure}, launch {launch}: no replays; leave out a launch without any")
    mean = math.fsum(replays) / len(replays)
    if not math.isfinite(mean):
        raise SpecError(
            f"{figure}, launch {launch}: {list(replays)!r} cannot be judged by a limit; it takes "
            "finite values. Leave the figure out where it was not measured"
        )
    return mean
