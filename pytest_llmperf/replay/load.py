"""The loop that sends a job and receives what comes. It parses nothing.

Per read: a clock reading, an append, and a look at the last 7 bytes. Everything else is
done when a response's head arrives, when it ends, or afterwards by the parent process.

``sent_ns`` is read right before the first byte of a request is written, on a connection
that stands. Requests leave when they are due; where ``max_concurrency`` are in flight they
wait in arrival order (vLLM's semaphore). What is late is sent late, and none is dropped.

A later turn of a conversation is due its think time after this process saw the end of the
answer before it, and takes its place in that order. Where that answer failed, by its connection
or its status, the turns after it are not sent.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

from pytest_llmperf.replay.clocks import Timer, wall_offset
from pytest_llmperf.replay.connections import CONNECT_NS, Address, Pool, descriptor_limit
from pytest_llmperf.replay.exchange import Exchange
from pytest_llmperf.replay.framing import HeadError
from pytest_llmperf.replay.schedule import NEVER, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_llmperf.replay.job import Job
    from pytest_llmperf.replay.spool import Spool

TICK_NS = 50_000_000
SWEEP_NS = 500_000_000
AHEAD_NS = 250_000_000
"""Connections stand this long before the requests that will need them."""

PACE_NS = 20_000
"""What is due at once leaves in a row, one request in 20 µs with a look at the sockets in
between: written faster it would lie unread before the server and pass for its slowness."""

SPIN_NS = 50_000
"""A wait this short is spent looking at the sockets: to sleep and wake up takes longer."""

LEAD_NS = 10_000_000
QUEUED = 10
"""How many stall times one stream may be silent while others bring bytes: it may be queued."""


class StalledError(Exception):
    """No open stream brought a byte for the time set."""


class Load:
    """One job being sent. ``progress(done)`` is called about twice a second."""

    def __init__(
        self, job: Job, address: Address, spool: Spool, progress: Callable[[int], None]
    ) -> None:
        self.total = len(job.requests)
        self.done = 0
        self.held = bytearray(self.total)
        self.offsets: list[tuple[int, int]] = []
        self.loop_lag_ns = 0
        self.in_flight = 0
        self.start_ns = 0
        self.schedule = Schedule(job.due_ns, job.turns)
        self._limit = job.orders.max_concurrency or self.total
        self._stall_ns = job.orders.stall_ns
        self._spool = spool
        self._progress = progress
        self._epoll = select.epoll()
        self._timer = Timer()
        self._epoll.register(self._timer.fd, select.EPOLLIN | select.EPOLLET)
        self._pool = Pool(address, self._epoll, descriptor_limit())
        self.exchange = Exchange(job.requests, self._pool, spool, self._on_ended)
        self._next_due_ns = NEVER
        self._paced_ns = 0
        self._tick_ns = self._sweep_ns = 0
        self._busy_since_ns = 0

    def connect(self) -> None:
        """Open the connections that the first requests need, and wait until they stand."""
        deadline = time.monotonic_ns() + CONNECT_NS
        while (now := time.monotonic_ns()) < deadline and not self.exchange.refusals:
            if not self._open_ahead(now, AHEAD_NS):
                return
            self._handle(self._epoll.poll(0.1))

    def start(self) -> None:
        """Set the schedule's zero a moment ahead: from here on requests are due."""
        now = time.monotonic_ns()
        self.offsets.append(wall_offset())
        self.start_ns = now + LEAD_NS
        self.schedule.begin_at(self.start_ns)
        self._tick_ns = self._sweep_ns = now
        self._plan(now)

    def run(self) -> None:
        """Send everything and receive until all have ended; raise StalledError."""
        poll, clock = self._epoll.poll, time.monotonic_ns
        while self.done < self.total:
            ready = poll(0 if self._next_due_ns - clock() < SPIN_NS else TICK_NS / 1e9)
            woke = clock()
            self._handle(ready)
            now = clock()
            if now >= self._next_due_ns:
                self._begin(now)
            if now >= self._tick_ns:
                self._tick(now)
            self.loop_lag_ns = max(self.loop_lag_ns, now - woke)
        self.offsets.append(wall_offset())

    def close(self) -> None:
        """Close all sockets."""
        self._pool.close_all()
        self._timer.close()
        self._epoll.close()

    def _handle(self, ready: list[tuple[int, int]]) -> None:
        table, spool = self._pool.all, self._spool
        for fd, mask in ready:
            conn = table.get(fd)
            if conn is None:
                continue  # the timer, or a socket closed since
            try:
                conn.handle(conn, mask)
            except BlockingIOError:
                continue
            except (OSError, HeadError) as error:
                self.exchange.broken(conn, error)
            if spool.heard_ns >= self._next_due_ns:
                self._begin(spool.heard_ns)

    # --- the schedule

    def _plan(self, now: int) -> None:
        """Find when the next request may leave: not before another has ended, at the cap."""
        due = self.schedule.next_due_ns()
        if due == NEVER or self.in_flight >= self._limit:
            self._next_due_ns = NEVER
            return
        self._next_due_ns = max(due, self._paced_ns)
        if self._next_due_ns - now >= SPIN_NS:
            self._timer.set(self._next_due_ns)

    def _begin(self, now: int, *, held: bool = False) -> None:
        """Send the next request; ``held``: the cap kept it from leaving when it was due."""
        index = self.schedule.take()
        self.held[index] = held
        if not self.in_flight:
            self._busy_since_ns = now
        self.in_flight += 1
        self._paced_ns = now + PACE_NS
        self.exchange.begin(index, now)
        self._plan(now)

    def _on_ended(self, index: int) -> None:
        capped = self.in_flight == self._limit
        self.done += 1
        self.in_flight -= 1
        awaited = self.schedule.has_followers(index)
        if not (capped or awaited):
            return
        now = time.monotonic_ns()
        if awaited:
            self._follow(index, now)
        due = self.schedule.next_due_ns()
        if due <= now:
            self._begin(now, held=capped and due < now)
        else:
            self._plan(now)

    def _follow(self, index: int, now: int) -> None:
        """Let the turns after an answer become due, or end them with it."""
        if index in self.exchange.errors or index in self.exchange.refused:
            self.done += self.schedule.failed(index, now)
        else:
            self.schedule.answered(index, now)

    def _open_ahead(self, now: int, horizon: int) -> int:
        """Open what requests due until ``horizon`` need; return how many do not stand yet."""
        upcoming = self.schedule.upcoming(horizon)
        room = min(self._limit, self._pool.limit) - self.in_flight
        missing = min(upcoming, room) - self._pool.ready(now + AHEAD_NS)
        self.exchange.open_ahead(missing)
        return max(missing, 0)

    def _tick(self, now: int) -> None:
        self._tick_ns = now + TICK_NS
        self._open_ahead(now, now + AHEAD_NS)
        if now < self._sweep_ns:
            return
        self._sweep_ns = now + SWEEP_NS
        self.offsets.append(wall_offset())
        self._progress(self.done)
        if self.in_flight and now - max(self._spool.heard_ns, self._busy_since_ns) > self._stall_ns:
            raise StalledError
        patience = self._stall_ns * QUEUED
        for conn in list(self._pool.all.values()):
            if conn.request >= 0 and now - conn.heard_ns > patience:
                self.exchange.give_up(conn, f"stalled: no byte for {patience / 1e9:g} s")
