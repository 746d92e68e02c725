"""One figure tonight against its accepted nights: the arithmetic of stage 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_llmperf.gate._student import student
from pytest_llmperf.gate.history import Evidence, NightNoise
from pytest_llmperf.model.verdict import Status

MOST_LAUNCHES = 100
"""More than these in one night are no plan that anybody could follow."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All numbers are in y = log(value), signed so that + is worse.

    ``center``: mean of the accepted nights. ``loss``: tonight − center. ``worst``: the worst
    launch ever accepted − center. ``proof`` and ``margin``: from the loss to its bound at
    alpha and to either bound at the rule's confidence.
    """

    evidence: Evidence
    noise: NightNoise
    alpha: float
    center: float
    loss: float
    worst: float
    proof: float
    margin: float

    @classmethod
    def of(
        cls, evidence: Evidence, everything: Sequence[Sequence[float]], alpha: float
    ) -> Comparison:
        """Compare by the evidence; ``everything``: launch means of all nights, old ones too."""
        nights = [mean(night) for night in evidence.nights]
        center = mean(nights)
        noise = evidence.noise(len(evidence.candidate))
        error = noise.error(len(evidence.candidate), len(nights))
        return cls(
            evidence,
            noise,
            alpha,
            center,
            loss=mean(evidence.candidate) - center,
            worst=max(map(max, everything)) - center,
            proof=student(1 - alpha, noise.df) * error,
            margin=student(evidence.rule.confidence, noise.df) * error,
        )

    @property
    def launches(self) -> int:
        """Tonight's launches."""
        return len(self.evidence.candidate)

    @property
    def nights(self) -> int:
        """The accepted nights that are compared with."""
        return len(self.evidence.nights)

    @property
    def status(self) -> Status:
        """The verdict by the rule of ``judge_values``."""
        if self.loss + self.proof < 0 and self.loss <= -self.evidence.rule.effect:
            return Status.IMPROVED
        enough = self.evidence.enough(self.launches, self.nights)
        return self._decision(self.proof, self.margin, enough=enough) or Status.INCONCLUSIVE

    @property
    def within_accepted(self) -> bool:
        """Whether only the noise's being assumed keeps this loss from being REGRESSED."""
        return self._decision(self.proof, self.margin, enough=True) is Status.REGRESSED

    @property
    def detectable(self) -> float:
        """The loss that is called REGRESSED with the probability of the rule's confidence."""
        enough = self.evidence.enough(self.launches, self.nights)
        guard = 0.0 if enough else self.worst
        return max(self.proof, self.evidence.rule.effect, guard) + self.margin

    def launches_needed(self) -> int | None:
        """Return the fewest launches in one night that would decide; None where none would.

        At the loss and the noise seen: more launches take away the launches' part of tonight's
        variance, not the night's, nor the baseline's.
        """
        fewest, most = max(self.launches + 1, self.evidence.rule.min_launches), MOST_LAUNCHES
        if not self._would_decide(most, self.nights, self.evidence.noise(most)):
            return None
        while fewest < most:
            middle = (fewest + most) // 2
            noise = self.evidence.noise(middle)
            if self._would_decide(middle, self.nights, noise):
                most = middle
            else:
                fewest = middle + 1
        return most

    def nights_needed(self) -> int | None:
        """Return the fewest accepted nights that would decide, if any number would."""
        rule, noise = self.evidence.rule, self.noise
        for nights in range(self.nights + 1, rule.max_nights + 1):
            alone = self.evidence.enough(self.launches, nights) and not self.evidence.pooled
            df = nights - 1 if alone else noise.df + nights - self.nights
            if self._would_decide(self.launches, nights, replace(noise, df=df)):
                return nights
        return None

    def _would_decide(self, launches: int, nights: int, noise: NightNoise) -> bool:
        error = noise.error(launches, nights)
        proof = student(1 - self.alpha, noise.df) * error
        margin = student(self.evidence.rule.confidence, noise.df) * error
        enough = self.evidence.enough(launches, nights)
        return self._decision(proof, margin, enough=enough) is not None

    def _decision(self, proof: float, margin: float, *, enough: bool) -> Status | None:
        rule = self.evidence.rule
        outside = enough or self.loss > self.worst
        if self.loss - proof > 0 and self.loss >= rule.effect and outside:
            return Status.REGRESSED
        return Status.PASSED if self.loss + margin < rule.tolerance else None


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean."""
    return sum(values) / len(values)
