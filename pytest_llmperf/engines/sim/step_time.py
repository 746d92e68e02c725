"""How long a step takes, and the noise on it.

``StepTime`` is the seam: the model of bytes and FLOPs replaces ``FixedStepTime`` and nothing else.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pytest_llmperf.engines.sim.scheduler import Batch

KNOWN_SALTS = 256
"""Cache salts remembered at once: a replay sends one, and a few overlap at most."""


class StepTime(Protocol):
    """Says how long a step takes on the hardware that is simulated, without noise."""

    def seconds(self, batch: Batch[Any]) -> float:
        """Return the seconds that the engine needs for ``batch``."""


@dataclass(frozen=True, slots=True)
class FixedStepTime:
    """``step_s`` for every step, whatever runs in it, plus ``prefill_s`` a prefill token."""

    step_s: float
    prefill_s: float

    def seconds(self, batch: Batch[Any]) -> float:
        """Return the seconds that the engine needs for ``batch``."""
        return self.step_s + self.prefill_s * batch.prefill_tokens


class Pace:
    """The factor on every step time: a slowdown, and noise in the two levels that GATE.md has.

    Both are log-normal, exp(N(0, sd)). ``launch`` is drawn once. A replay's factor is drawn
    when its ``cache_salt`` is first seen, so that with a seed the n-th replay of a launch has
    the same factor in every launch, whatever its salt is.
    """

    def __init__(
        self, slowdown: float, launch_sd: float, replay_sd: float, seed: int | None
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311 - noise, not a secret
        self._replay_sd = replay_sd
        self._salts: dict[str, float] = {}
        self.launch = slowdown * math.exp(self._random.gauss(0.0, launch_sd))

    def replay(self, salt: str | None) -> float:
        """Return the factor of requests with that ``cache_salt``; without one it is 1."""
        if salt is None:
            return 1.0
        if salt not in self._salts:
            if len(self._salts) >= KNOWN_SALTS:
                del self._salts[next(iter(self._salts))]
            self._salts[salt] = math.exp(self._random.gauss(0.0, self._replay_sd))
        return self._salts[salt]
