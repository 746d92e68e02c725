"""Noise from accepted nights: what a figure does by itself while nothing has changed.

Here, and not in the gate, because the store keeps each baseline's noise beside its nights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.verdict import Noise

Launches = Sequence[Sequence[float]]
"""launches × replays of one figure, all of one night."""


def launch_logs(launches: Launches, figure: str, where: str) -> list[float]:
    """Return each launch's mean of log(value) over its replays.

    ``where`` says whose values these are, for the message of the SpecError that is raised for
    a launch without replays, a shape that is not launches × replays, and a value that has no
    logarithm: zero, below zero, infinite or not a number.
    """
    try:
        means = [sum(map(math.log, replays)) / len(replays) for replays in launches]
    except (TypeError, ValueError, ZeroDivisionError):
        raise _complaint(launches, figure, where) from None
    if not means or not math.isfinite(sum(means)):
        raise _complaint(launches, figure, where)
    return means


def night_log(launches: Launches, figure: str, where: str) -> float:
    """Return a night's mean of its launches' means, in log(value). Raises as ``launch_logs``."""
    means = launch_logs(launches, figure, where)
    return sum(means) / len(means)


def estimate_noise(nights: Sequence[Launches], figure: str = "figure") -> Noise | None:
    """Return the standard deviation of night means in log(value), or None below two nights.

    ``nights``: nights × launches × replays. The degrees of freedom are the nights less one.
    Raises SpecError, naming ``figure``, for values without a logarithm.
    """
    means = [night_log(night, figure, f"night {i}") for i, night in enumerate(nights, 1)]
    return spread(means)


def spread(means: Sequence[float]) -> Noise | None:
    """Return the standard deviation of ``means`` around their own mean; None below two."""
    df = len(means) - 1
    if df < 1:
        return None
    center = sum(means) / len(means)
    return Noise(math.sqrt(sum((mean - center) ** 2 for mean in means) / df), df)


def pool(noises: Iterable[Noise]) -> Noise | None:
    """Return one noise from many of the same kind, or None where there is none.

    The pooled variance is the mean of the variances, weighted by their degrees of freedom,
    which add up. Noises that are known exactly (infinite degrees of freedom) outweigh all
    that are estimated.
    """
    known = [noise for noise in noises if noise.df > 0]
    if not known:
        return None
    exact = [noise for noise in known if math.isinf(noise.df)]
    if exact:
        return Noise(math.sqrt(sum(n.sd**2 for n in exact) / len(exact)), math.inf)
    df = sum(noise.df for noise in known)
    return Noise(math.sqrt(sum(n.df * n.sd**2 for n in known) / df), df)


def pool_unlike(noises: Iterable[Noise]) -> Noise | None:
    """Return the noise to expect of one of these, which need not all be as noisy; None of none.

    The variance is ``pool``'s. Its degrees of freedom say how well it foretells the variance of
    a single one, so they shrink as the noises differ by more than their estimates explain: with
    v the pooled variance, D its degrees of freedom and t the variance of the true variances
    (method of moments, as DerSimonian & Laird 1986 take it for effects), 1 / (1/D + t/(2v²)).
    Alike noises give D; one of 3 % among nine of 0.3 % gives less than 1.
    """
    known = [noise for noise in noises if noise.df > 0]
    pooled = pool(known)
    if pooled is None or math.isinf(pooled.df) or not pooled.sd:
        return pooled
    total, center = pooled.df, pooled.sd**2
    seen = sum(n.df * (n.sd**2 - center) ** 2 for n in known)
    # An estimate s² varies by 2σ⁴/df, and σ⁴ itself is estimated by s⁴·df/(df + 2).
    chance = sum((1 - n.df / total) * 2 * n.sd**4 * n.df / (n.df + 2) for n in known)
    weight = total - sum(n.df**2 for n in known) / total
    apart = max(seen - chance, 0.0) / weight if weight > 0 else 0.0
    return Noise(pooled.sd, 1 / (1 / total + apart / (2 * center**2)))


def night_mean(launches: Launches) -> float:
    """Return a night's mean as the gate takes it: of logarithms, where all values have one."""
    values = [value for replays in launches for value in replays]
    if min(values) == max(values):
        return values[0]
    logs = min(values) > 0
    means = [
        sum(map(math.log, replays) if logs else replays) / len(replays) for replays in launches
    ]
    mean = sum(means) / len(means)
    return math.exp(mean) if logs else mean


def _complaint(launches: object, figure: str, where: str) -> SpecError:
    """Find what is wrong with values that could not be used, and say it."""
    if isinstance(launches, str) or not isinstance(launches, Iterable):
        return SpecError(f"{figure}, {where}: {launches!r} is not launches × replays of values")
    rows = list(launches)
    if not rows:
        return SpecError(f"{figure}, {where}: no launches; at least one is needed")
    for number, replays in enumerate(rows, 1):
        place = f"{figure}, {where}, launch {number}"
        if isinstance(replays, str) or not isinstance(replays, Iterable):
            return SpecError(
                f"{place}: {replays!r} is not a row of replays; give launches × replays, "
                "[[value]] for a single one"
            )
        values = list(replays)
        if not values:
            return SpecError(f"{place}: no replays; leave out a launch that has none")
        for replay, value in enumerate(values, 1):
            if not (isinstance(value, float | int) and 0 < value < math.inf):
                return SpecError(
                    f"{place}, replay {replay}: {value!r} cannot be judged as a ratio; it takes "
                    "a finite value above 0. Leave the figure out where it was not measured"
                )
    return SpecError(f"{figure}, {where}: values too large to take their mean")
