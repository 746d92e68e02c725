"""How noisy a night is: from this figure's nights, from the machine's, or assumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_llmperf.gate.assumed import ASSUMED_DF
from pytest_llmperf.gate.rule import Rule
from pytest_llmperf.model.noise import pool
from pytest_llmperf.model.verdict import Noise, NoiseSource


@dataclass(frozen=True, slots=True)
class NightNoise:
    """The standard deviation of a night's mean, and what part of it launches make.

    ``sd`` belongs to nights of ``1 / per_launch`` launches (the harmonic mean of the accepted
    ones); ``launch_sd`` is between launches of one night and never larger than ``sd`` allows.
    """

    sd: float
    df: float
    source: NoiseSource
    launch_sd: float
    per_launch: float

    def error(self, launches: int, nights: int) -> float:
        """Return the standard error of candidate − baseline.

        Where tonight has as many launches as the accepted nights, sd · √(1 + 1/nights). Where
        it has more or fewer, only the launches' part of tonight's variance changes.
        """
        tonight = self.sd**2 + self.launch_sd**2 * (1 / launches - self.per_launch)
        return math.sqrt(max(tonight, 0.0) + self.sd**2 / nights)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one judgement has: launch means in y, tonight's and those of accepted nights.

    ``history``: the noise known, with ``pooled`` where it is the machine's and not only this
    baseline's. ``assumed_sd``: what to fall back on.
    """

    candidate: Sequence[float]
    nights: Sequence[Sequence[float]]
    history: Noise | None
    pooled: bool
    assumed_sd: float
    rule: Rule

    def enough(self, launches: int, nights: int) -> bool:
        """Whether so many launches and nights are enough to do without assumptions."""
        return launches >= self.rule.min_launches and nights >= self.rule.min_nights

    def noise(self, launches: int) -> NightNoise:
        """Return the noise to judge so many launches tonight with.

        Measured or pooled noise is believed from ``min_nights`` nights (their degrees of
        freedom) on. Less than that is blended with the assumption, each weighing its degrees
        of freedom, so that a machine's own noise takes over as nights come in. With fewer
        launches than ``min_launches`` a night cannot show its noise: the larger of the
        history's and the assumed one.
        """
        per_launch = sum(1 / len(night) for night in self.nights) / len(self.nights)
        within = self._between_launches()
        known = self.history
        if known and known.df >= self.rule.min_nights - 1:
            believed = launches >= self.rule.min_launches
            sd, df = known.sd if believed else max(known.sd, self.assumed_sd), known.df
            source: NoiseSource = "assumed"
            if believed:
                source = "pooled" if self.pooled else "measured"
        else:
            assumed = Noise(self._assumption(within, per_launch), ASSUMED_DF)
            blend = pool([assumed, known] if known else [assumed])
            sd, df, source = (blend or assumed).sd, (blend or assumed).df, "assumed"
        # A night varies by its own part and by its launches' mean; half each if unknown.
        most = sd / math.sqrt(per_launch)
        launch_sd = min(within.sd, most) if within else sd / math.sqrt(1 + per_launch)
        return NightNoise(sd, df, source, launch_sd, per_launch)

    def _between_launches(self) -> Noise | None:
        squares, df = 0.0, 0
        for launches in (self.candidate, *self.nights):
            center = sum(launches) / len(launches)
            squares += sum([(y - center) ** 2 for y in launches])
            df += len(launches) - 1
        return Noise(math.sqrt(squares / df), df) if df else None

    def _assumption(self, within: Noise | None, per_launch: float) -> float:
        """Return what to assume: the table, or more where launches differ more.

        Nights differ at least as much as launches do: in the public series as in GATE.md's.
        """
        return max(self.assumed_sd, within.sd * math.sqrt(1 + per_launch) if within else 0.0)
