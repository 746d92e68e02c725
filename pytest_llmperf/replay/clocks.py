"""Clocks and timers of the load process: what Linux offers and Python does not wrap."""

from __future__ import annotations

import ctypes
import os
import time

PR_SET_PDEATHSIG = 1
PR_SET_TIMERSLACK = 29
SIGKILL = 9
CLOCK_MONOTONIC = 1
TFD_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
TFD_TIMER_ABSTIME = 1
SECOND = 1_000_000_000
TRIES = 50


def wall_offset() -> tuple[int, int]:
    """Return (monotonic ns, CLOCK_REALTIME less CLOCK_MONOTONIC, ns) of this moment.

    Of several readings the one that was taken quickest counts: the two clocks cannot be
    read at one instant, and a pause between them would pass for an offset.
    """
    best = (SECOND, 0, 0)
    for _ in range(TRIES):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        best = min(best, (after - before, before, wall - (before + after) // 2))
    return best[1], best[2]


def die_with(parent: int) -> bool:
    """Have the kernel kill this process when its parent ends; False if that one is gone."""
    _libc().prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def exact_timers() -> None:
    """Let no wait of this thread be stretched to meet another (Linux adds 50 µs otherwise)."""
    _libc().prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)


class Timer:
    """A timer that epoll waits for: epoll's own timeout is in whole milliseconds.

    Registered edge-triggered it needs no reading: setting it anew arms it.
    """

    def __init__(self) -> None:
        self._libc = _libc()
        self._setting = (ctypes.c_int64 * 4)()  # struct itimerspec: interval, then value
        self.fd: int = self._libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def set(self, at_ns: int) -> None:
        """Become readable at that CLOCK_MONOTONIC time, at once if it has passed."""
        self._setting[2], self._setting[3] = divmod(at_ns, SECOND)
        self._libc.timerfd_settime(self.fd, TFD_TIMER_ABSTIME, self._setting, None)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
