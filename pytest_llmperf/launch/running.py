"""RunningServer: what a launch hands to those who measure it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_llmperf import http
from pytest_llmperf.launch.counters import counters_from

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_llmperf.model.launch import LaunchFacts, Target
    from pytest_llmperf.model.record import Counters
    from pytest_llmperf.model.server import ServerSpec


@dataclass(frozen=True, eq=False)
class RunningServer:
    """A server that has answered a request. ``pid`` is None for one that ran already.

    ``executable`` is what was started, None likewise. ``log`` is its output.
    """

    spec: ServerSpec
    target: Target
    facts: LaunchFacts
    log: Path
    pid: int | None
    executable: str | None
    check: Callable[[], None] = field(repr=False)

    def check_alive(self) -> None:
        """Raise ServerDiedError, with the log's decisive lines, if the server has ended.

        Cheap enough to be called many times a second, and from any thread.
        """
        self.check()

    def metrics_text(self) -> str | None:
        """Return the text of ``/metrics``, None where the server has none.

        Raise ServerError where nothing comes back.
        """
        return http.metrics(self.target)

    def counters(self) -> Counters | None:
        """Return ``/metrics`` as numbers, None where the server has none that can be read."""
        text = self.metrics_text()
        try:
            return None if text is None else counters_from(text)
        except ValueError:
            return None
