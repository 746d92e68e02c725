"""Telling what a starting server does, seldom enough to be read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_llmperf.launch.serverlog import ServerLog

LOOK_S = 2.0
REPEAT_S = 15.0


class StartProgress:
    """Looks at the log every two seconds; tells a new phase at once, the same one seldom."""

    def __init__(self, log: ServerLog, tell: Callable[[str], None]) -> None:
        self._log = log
        self._tell = tell
        self._looked = self._told = time.monotonic()
        self._phase = ""

    def tell(self) -> None:
        """Tell the phase if there is something to tell."""
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        phase = self._log.phase() or "starting"
        if phase != self._phase or now - self._told >= REPEAT_S:
            self._phase, self._told = phase, now
            self._tell(phase)
