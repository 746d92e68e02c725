"""The supervisor's side of a kept server: how it knows that nobody uses it any more.

A session that uses a kept server holds a lock on a file, which the kernel lets go however the
session ends. The file says who holds it. Standard library only: the supervisor starts with this.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOOK_S = 0.5
ENDING = "its supervisor, to end it after its idle time,"
"""What the lock file says while a supervisor ends a server that was idle."""
NO_MARK = "\0"
"""No process's mark: an environment cannot hold it."""


def locked(path: Path) -> int | None:
    """Return the lock file, open and locked; None where another process has the lock."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def say_holder(file: int, holder: str) -> None:
    """Write into a lock file, which is held, who holds it; also the time of its last use."""
    os.ftruncate(file, 0)
    os.pwrite(file, holder.encode(), 0)
    os.utime(file)


def holder_of(lock: Path) -> str:
    """Return who holds a lock, as its file says; nothing where it does not say."""
    with suppress(OSError):
        return lock.read_text(errors="replace")[:200]
    return ""


def mark_in(state: Path) -> str:
    """Return the mark that a state file tells of, whatever else is in it; else ``NO_MARK``."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return str(json.loads(state.read_bytes())["mark"])
    return NO_MARK


class Keeping:
    """Watches the lock of one kept server for as long as its supervisor lives.

    ``mark`` is the server's: the state file may be a later server's by the time this one is gone.
    """

    def __init__(self, lock: Path, state: Path, idle: float, mark: str) -> None:
        self._lock = lock
        self._state = state
        self._idle = idle
        self._mark = mark
        self._used = self._looked = time.monotonic()
        self._stamp: int | None = None
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
            return False
        # A session that was shorter than a look has left its time, which may not be compared
        # with ours: somebody may set the clock.
        stamp = os.fstat(file).st_mtime_ns
        if stamp != self._stamp:
            self._stamp, self._used = stamp, now
        if now - self._used >= self._idle:
            say_holder(file, ENDING)
            self._file = file
            return True
        os.close(file)
        return False

    def forget(self) -> None:
        """Remove what tells sessions of this server; a session that has the lock does it itself."""
        with suppress(OSError):
            self._file = self._file or locked(self._lock)
            if self._file is not None and mark_in(self._state) == self._mark:
                self._state.unlink(missing_ok=True)
