"""The engine's clock, and wake-ups at absolute times that are true to the kernel's timers.

asyncio hands its timers to epoll in whole milliseconds, rounded up: steps of 9 ms would come
up to 1 ms late. A timerfd is a file descriptor of the same epoll that becomes readable on time.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

CLOCK_MONOTONIC = 1
TFD_TIMER_ABSTIME = 1
TFD_FLAGS = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
EXPIRATIONS_BYTES = 8


class Alarm(Protocol):
    """Calls back once at the time it was last set to, on ``time.monotonic()``'s clock."""

    def set(self, when: float) -> None:
        """Call back at ``when``; at once where that is past."""

    def close(self) -> None:
        """Never call back again."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class TimerfdAlarm:
    """Linux's timerfd through ctypes (``os.timerfd_create`` came with Python 3.13)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._settime = libc.timerfd_settime
        self._spec = _Itimerspec()
        self._spec_pointer = ctypes.byref(self._spec)
        self._callback = callback
        self._loop = loop
        self._fd = libc.timerfd_create(CLOCK_MONOTONIC, TFD_FLAGS)
        if self._fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        loop.add_reader(self._fd, self._ring)

    def set(self, when: float) -> None:
        """Call back at ``when``; at once where that is past."""
        seconds = int(when)
        self._spec.value.seconds = seconds
        # An all-zero value would disarm the timer; a time that is past fires at once.
        self._spec.value.nanoseconds = max(1, int((when - seconds) * 1e9))
        self._settime(self._fd, TFD_TIMER_ABSTIME, self._spec_pointer, None)

    def close(self) -> None:
        """Never call back again."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _ring(self) -> None:
        try:
            os.read(self._fd, EXPIRATIONS_BYTES)
        except BlockingIOError:
            return  # set again between the expiration and this read
        self._callback()


class LoopAlarm:
    """asyncio's own timers, for platforms without timerfd: true to a millisecond."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None

    def set(self, when: float) -> None:
        """Call back at ``when``; at once where that is past."""
        self.close()
        self._handle = self._loop.call_at(when, self._callback)

    def close(self) -> None:
        """Never call back again."""
        if self._handle is not None:
            self._handle.cancel()


class Clock(Protocol):
    """The time that the engine lives in: real, or virtual in tests."""

    def now(self) -> float:
        """Return the time in seconds."""

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back once everything that has already arrived is taken in."""

    def alarm(self, callback: Callable[[], None]) -> Alarm:
        """Return an alarm that calls ``callback``."""


class LoopClock:
    """An event loop's monotonic time, with the truest alarm that the platform has."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        """Return ``time.monotonic()``."""
        return self._loop.time()

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back in the loop's next turn."""
        self._loop.call_soon(callback)

    def alarm(self, callback: Callable[[], None]) -> Alarm:
        """Return a timerfd's alarm; where there is none, one of the loop's own timers."""
        try:
            return TimerfdAlarm(self._loop, callback)
        except (AttributeError, OSError):
            return LoopAlarm(self._loop, callback)
