"""Status, Finding and Verdict: how a judgement is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal


class Status(Enum):
    """In order of precedence: the first that applies is a verdict's status."""

    INVALID = "INVALID"
    SLO_VIOLATED = "SLO_VIOLATED"
    REGRESSED = "REGRESSED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_BASELINE = "NO_BASELINE"
    IMPROVED = "IMPROVED"
    PASSED = "PASSED"

    @classmethod
    def worst(cls, statuses: list[Status]) -> Status:
        """Return the one that takes precedence; PASSED where there is none."""
        order = list(cls)
        return min(statuses, key=order.index, default=cls.PASSED)


NoiseSource = Literal["measured", "pooled", "assumed", "exact", "none"]
Kind = Literal["baseline", "slo", "ratio"]


@dataclass(frozen=True, slots=True)
class Noise:
    """A standard deviation in y = log(value) with its degrees of freedom (may be inf)."""

    sd: float
    df: float


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure judged.

    ``change`` is ratio − 1, signed as measured (a throughput that fell is negative), and
    ``interval`` its confidence interval. ``smallest_detectable_change`` is the loss (a share,
    always positive) that this data would have called REGRESSED with 95 % probability.
    ``open``: more data would decide it. ``tolerance``: the loss that must not pass, as a share,
    where one was judged by. ``expected``: a limit of the suite's own was asked of a ratio, so
    that an answer which stays open is no yes.
    """

    figure: str
    status: Status
    reason: str
    kind: Kind = "baseline"
    value: float | None = None
    reference: float | None = None
    change: float | None = None
    interval: tuple[float, float] | None = None
    smallest_detectable_change: float | None = None
    launches_needed: int | None = None
    noise: NoiseSource = "none"
    open: bool = False
    unit: str = ""
    launches: int = 0
    replays: int = 0
    nights: int = 0
    tolerance: float | None = None
    expected: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """All findings of one test. ``caveats`` are said wherever the verdict is shown."""

    test: str
    server: str
    traffic: str
    findings: tuple[Finding, ...]
    caveats: tuple[str, ...] = ()
    against: str | None = None

    @property
    def status(self) -> Status:
        """The status that takes precedence among the findings."""
        return Status.worst([finding.status for finding in self.findings])
