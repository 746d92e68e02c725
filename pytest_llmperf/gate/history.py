"""How noisy a night is: from this figure's nights, from the machine's, or assumed.

The machine's noise is pooled over all its baselines, and knows more than one baseline's own
nights do, as long as this traffic is like the others. Where its own nights, or the launches in
them, contradict that, it is judged by its own noise: ``DOUBT`` and ``CERTAINTY`` say how soon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_llmperf.gate._student import fisher
from pytest_llmperf.gate.assumed import ASSUMED_DF
from pytest_llmperf.gate.rule import Rule
from pytest_llmperf.model.noise import pool, spread
from pytest_llmperf.model.verdict import Noise, NoiseSource

DOUBT = 0.1
"""The level of the test whether a traffic is noisier than its machine's pooled noise.

No level both keeps the pool's power and bounds false alarms for a traffic of any noise. At 10 %
a traffic that is no noisier than the others is judged by the pool nine times out of ten, and one
ten times as noisy raises no more false alarms than alpha. The worst, about twice as noisy as nine
others, raises twice an alpha of 1 %, and seven times one of 0.08 %: 0.6 %, still within the 1 %
that a figure may raise (``benchmarks/gate_power.py``).
"""

CERTAINTY = 0.001
"""The level of the test whether it is quieter: a mistake there costs false alarms."""


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

    @classmethod
    def of(
        cls,
        candidate: Sequence[float],
        nights: Sequence[Sequence[float]],
        machine: Noise | None,
        assumed_sd: float,
        rule: Rule,
    ) -> Evidence:
        """Choose between the machine's noise, if known, and that of these nights.

        The machine's is taken where it has more degrees of freedom, and where the nights do not
        contradict it, nor their launches while nights are too few to tell.
        """
        own = spread([sum(night) / len(night) for night in nights])
        alone = cls(candidate, nights, own, pooled=False, assumed_sd=assumed_sd, rule=rule)
        if machine is None or (own and own.df >= machine.df) or _noisier(own, machine):
            return alone
        few = own is None or own.df < rule.min_nights - 1
        if _noisier(alone.least_noise(), machine) if few else _quieter(own, machine):
            return alone
        return replace(alone, history=machine, pooled=True)

    def least_noise(self) -> Noise | None:
        """Return the noise of nights that launches alone make plausible; None without any.

        Nights differ at least as much as launches do: in the public series as in GATE.md's.
        """
        within = self._between_launches()
        return Noise(within.sd * math.sqrt(1 + self._per_launch), within.df) if within else None

    @property
    def _per_launch(self) -> float:
        return sum(1 / len(night) for night in self.nights) / len(self.nights)

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
        per_launch = self._per_launch
        within = self._between_launches()
        known = self.history
        if known and known.df >= self.rule.min_nights - 1:
            believed = launches >= self.rule.min_launches
            sd, df = known.sd if believed else max(known.sd, self.assumed_sd), known.df
            source: NoiseSource = "assumed"
            if believed:
                source = "pooled" if self.pooled else "measured"
        else:
            assumed = self._assumption()
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

    def _assumption(self) -> Noise:
        """Return what to assume: the table, or more where launches differ more."""
        least = self.least_noise()
        if least is None or least.sd <= self.assumed_sd:
            return Noise(self.assumed_sd, ASSUMED_DF)
        return Noise(least.sd, min(ASSUMED_DF, least.df))


def _noisier(noise: Noise | None, machine: Noise) -> bool:
    """Whether an estimate is larger than the machine's noise would let it be by chance."""
    if noise is None or noise.sd <= machine.sd:
        return False
    return noise.sd**2 > fisher(1 - DOUBT, noise.df, machine.df) * machine.sd**2


def _quieter(noise: Noise | None, machine: Noise) -> bool:
    """Whether an estimate is smaller than chance explains. None at all is too good to be true."""
    if noise is None or not 0 < noise.sd < machine.sd:
        return False
    return noise.sd**2 < fisher(CERTAINTY, noise.df, machine.df) * machine.sd**2
