"""The supervisor's side of a kept server: how it knows that nobody uses it any more.

A session that uses a kept server holds a lock on a file, which the kernel lets go however the
session ends. Standard library only: the supervisor starts with this.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOOK_S = 0.5


def locked(path: Path) -> int | None:
    """Return the lock file, open and locked; None where another process has the lock."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


class Keeping:
    """Watches the lock of one kept server for as long as its supervisor lives."""

    def __init__(self, lock: Path, state: Path, idle: float) -> None:
        self._lock = lock
        self._state = state
        self._idle = idle
        self._used = self._looked = time.monotonic()
        self._file: int | None = None

    def expired(self) -> bool:
        """Whether no session has used the server for so long; none gets it from then on.

        A folder that somebody removed was meant to end it too.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return False
        self._looked = now
        try:
            file = locked(self._lock)
        except OSError:
            return True
        if file is None:
            self._used = now
        elif now - self._used >= self._idle:
            self._file = file
            return True
        else:
            os.close(file)
        return False

    def forget(self) -> None:
        """Remove what tells sessions of the server; a session that has the lock does it itself."""
        with suppress(OSError):
            self._file = self._file or locked(self._lock)
            if self._file is not None:
                self._state.unlink(missing_ok=True)
