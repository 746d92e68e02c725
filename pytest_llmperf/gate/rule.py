"""Rule: how strictly a figure is judged."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_llmperf.errors import SpecError

FIGURE_ALPHA = 0.01
"""The most false alarms a figure may raise: 1 % of the nights on which nothing changed."""
NIGHT_ALPHA = 0.05
"""The most that all figures of a session may raise together."""


@dataclass(frozen=True, slots=True)
class Rule:
    """All thresholds are shares, applied to differences in y = log(value).

    ``tolerance``: the loss that must not pass. ``smallest_effect``: the loss below which
    nobody cares, however sure it is. ``assumed_sd``: standard deviation of night means while
    there is too little history (None: the figure's own, ``assumed.assumed_sd``). ``alpha``:
    false alarms a figure. ``confidence``: of the bounds that rule a loss out, and of each end
    of the interval. Below ``min_launches`` launches or ``min_nights`` accepted nights noise
    is assumed; no more than the last ``max_nights`` nights are compared with.
    """

    tolerance: float = 0.05
    smallest_effect: float = 0.02
    assumed_sd: float | None = None
    alpha: float = FIGURE_ALPHA
    confidence: float = 0.95
    min_launches: int = 3
    min_nights: int = 5
    max_nights: int = 10

    def __post_init__(self) -> None:
        rules = (
            (0 < self.tolerance < 1, f"tolerance is {self.tolerance}, not between 0 and 1"),
            (
                0 <= self.smallest_effect < 1,
                f"smallest_effect is {self.smallest_effect}, not a share below 1",
            ),
            (
                self.assumed_sd is None or 0 < self.assumed_sd < math.inf,
                f"assumed_sd is {self.assumed_sd}, not a share above 0",
            ),
            (
                0.5 < self.confidence < 1,  # noqa: PLR2004 - a coin's chance is no confidence
                f"confidence is {self.confidence}, not between 0.5 and 1",
            ),
            (self.min_launches >= 1, f"min_launches is {self.min_launches}, not at least 1"),
            (
                1 < self.min_nights <= self.max_nights,
                f"min_nights is {self.min_nights}, not between 2 and {self.max_nights} (max_nights)",
            ),
        )
        for holds, complaint in rules:
            if not holds:
                raise SpecError(f"rule: {complaint}")
        check_alpha(self.alpha)

    @property
    def effect(self) -> float:
        """The smallest effect, no larger than the tolerance.

        Whoever tolerates 1 % cares about 1 %; between the two nothing could pass or fail.
        """
        return min(self.smallest_effect, self.tolerance)


def check_alpha(alpha: float) -> float:
    """Return ``alpha``; raise SpecError unless it can be a share of false alarms."""
    if not 0 < alpha < 0.5:  # noqa: PLR2004 - a coin's chance is no test
        raise SpecError(f"alpha is {alpha}, not between 0 and 0.5")
    return alpha


def session_alpha(figures: int) -> float:
    """Return the false alarms each of a session's gated ``figures`` may raise.

    1 %, and less where the session has more than five figures, so that all together raise at
    most 5 % (Bonferroni). Known after collection: no later result changes it.
    """
    return min(FIGURE_ALPHA, NIGHT_ALPHA / max(figures, 1))
