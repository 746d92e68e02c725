"""A server's log as messages quote it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from pytest_llmperf.engines import Engine, TellsPhase

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_llmperf.launch.supervision import Supervision
    from pytest_llmperf.model.launch import LaunchFacts

END_BYTES = 1 << 20
"""What is read of a long log to find why a server died."""
PHASE_BYTES = 1 << 16
TAIL_LINES = 10
LONGEST_LINE = 300


class ServerLog:
    """The file that a server's output goes to. ``secret`` is never quoted from it."""

    def __init__(self, path: Path, engine: Engine, secret: str) -> None:
        self.path = path
        self._engine = engine
        self._secret = secret

    def clear(self) -> None:
        """Begin a new log."""
        self.path.write_bytes(b"")

    def facts(self) -> LaunchFacts:
        """Return what the whole log says."""
        return self._engine.facts(self._end(None))

    def phase(self) -> str | None:
        """Return what the server is doing, where its engine can tell."""
        if not isinstance(self._engine, TellsPhase):
            return None
        return self._engine.phase(self._end(PHASE_BYTES))

    def failure(self) -> str:
        """Return the indented line(s) that say why the server ended."""
        reason = self._engine.failure(self._end(END_BYTES)) or "its log is empty"
        return _indented(reason.replace(self._secret, "***"))

    def tail(self) -> str:
        """Return the last lines, indented."""
        text = self._end(PHASE_BYTES).replace("\r", "\n").replace(self._secret, "***")
        lines = [line[:LONGEST_LINE] for line in text.split("\n") if line.strip()]
        return _indented("\n".join(lines[-TAIL_LINES:]) or "nothing: it is empty")

    def _end(self, size: int | None) -> str:
        with self.path.open("rb") as file:
            if size is not None:
                file.seek(max(0, self.path.stat().st_size - size))
            return file.read().decode(errors="replace")


def ended(supervision: Supervision) -> str:
    """Say how a server ended: ``ended with exit code 1``."""
    code = supervision.exit_code
    if code is None:
        return f"lost its supervisor (pid {supervision.pid}), which was killed, and ended with it"
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = " (by hand, or for want of memory: see dmesg)" if -code == signal.SIGKILL else ""
    return f"was ended by {name}{hint}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
