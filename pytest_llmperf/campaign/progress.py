"""What is going on, how long it takes, what remains."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_llmperf.campaign.spec import CampaignSpec, Plan

MINUTE, HOUR = 60, 3600


def duration(seconds: float) -> str:
    """Return ``8 s``, ``3 min 20 s`` or ``2 h 5 min``."""
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"


class Progress:
    """Tells ``say`` each step, and what is left by the times that steps took so far."""

    def __init__(self, spec: CampaignSpec, plan: Plan, say: Callable[[str], None]) -> None:
        self._say = say
        # A single server's name is in every step anyway.
        self._prefix = f"{spec.label}: " if len(spec.servers) > 1 else ""
        self._launches = len(spec.turns(plan.launches))
        self._replays = self._launches * plan.replays * len(spec.traffics)
        self._done = {"launch": 0, "replay": 0}
        self._spent = {"launch": 0.0, "replay": 0.0}
        self._since = time.monotonic()

    def step(self, text: str) -> None:
        """Say that something begins."""
        self._since = time.monotonic()
        self._say(f"{self._prefix}{text}{self._remaining()}")

    def detail(self, text: str) -> None:
        """Say something about the step under way."""
        self._say(f"{self._prefix}… {text} ({duration(time.monotonic() - self._since)})")

    def done(self, kind: str) -> None:
        """Count a finished ``launch`` or ``replay`` for the estimate."""
        self._done[kind] += 1
        self._spent[kind] += time.monotonic() - self._since

    def _remaining(self) -> str:
        if not all(self._done.values()):
            return ""
        total = {"launch": self._launches, "replay": self._replays}
        left = sum((total[k] - self._done[k]) * self._spent[k] / self._done[k] for k in total)
        return f" · about {duration(left)} left"
