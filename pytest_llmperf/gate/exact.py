"""Figures without noise: weights, KV-cache tokens, maximum concurrency."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate._words import count, measured, moved, percent
from pytest_llmperf.model.verdict import Finding, Status

TOLERANCE = 0.005
ROUNDING = 1e-9
"""A change of exactly the tolerance passes, however its floating-point ratio comes out."""


def judge_exact(
    candidate: Sequence[float],
    baseline: Sequence[Sequence[float]],
    *,
    figure: str,
    higher_is_better: bool,
    tolerance: float = TOLERANCE,
) -> Finding:
    """Judge a figure that has no noise against the last accepted night; one launch decides.

    ``candidate``: a value a launch; ``baseline``: nights × launches, oldest first. The means
    of tonight's launches and of the last night's are compared: REGRESSED where more than
    ``tolerance`` (a share) is lost, IMPROVED where more is gained, PASSED otherwise,
    NO_BASELINE without nights. Raises SpecError for values that are not above 0.
    """
    value = _mean(candidate, figure, "candidate")
    if not baseline:
        return Finding(
            figure,
            Status.NO_BASELINE,
            f"no accepted night has {figure}",
            value=value,
            noise="exact",
            launches=len(candidate),
            replays=1,
        )
    reference = _mean(baseline[-1], figure, f"baseline night {len(baseline)}")
    change = value / reference - 1
    loss = -change if higher_is_better else change
    if abs(loss) <= tolerance + ROUNDING:
        status, bound = Status.PASSED, f"within the {percent(tolerance)} allowed"
    else:
        status = Status.REGRESSED if loss > 0 else Status.IMPROVED
        bound = f"more than the {percent(tolerance)} allowed" if loss > 0 else "a gain"
    last = f"than the last accepted night ({measured(reference)})"
    apart = max(candidate) / min(candidate) - 1
    launches = (
        f"; its {count(len(candidate), 'launch')} differ by {percent(apart)}, though this figure "
        "should not vary"
        if apart > tolerance
        else ""
    )
    seen = (
        f"{moved(change)} {last}" if change else f"the same as the last night ({measured(value)})"
    )
    return Finding(
        figure,
        status,
        f"{seen}, {bound}{launches}" if change else f"{seen}{launches}",
        value=value,
        reference=reference,
        change=change,
        interval=(change, change),
        smallest_detectable_change=tolerance,
        noise="exact",
        launches=len(candidate),
        replays=1,
        nights=1,
        tolerance=tolerance,
    )


def _mean(values: Sequence[float], figure: str, where: str) -> float:
    if not values:
        raise SpecError(f"{figure}, {where}: no launches; at least one is needed")
    for launch, value in enumerate(values, 1):
        if not 0 < value < math.inf:
            raise SpecError(
                f"{figure}, {where}, launch {launch}: {value!r} cannot be judged as a ratio; it "
                "takes a finite value above 0. Leave the figure out where it was not measured"
            )
    return math.fsum(values) / len(values)
