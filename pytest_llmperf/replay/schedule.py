"""What is due next: first turns by the clock, later ones when the answer before them has ended.

Requests leave in the order of their due times. Those that wait for no answer are due at the
times of the job, which ascend; a later turn joins them when its due time is known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.replay.job import Turn

NEVER = 1 << 62


class Schedule:
    """The requests of a job that have not left.

    ``due_ns`` has an entry a request: after the start until ``begin_at``, then on the clock;
    for a later turn 0 until it is known. ``unsent`` maps each request that will never be sent
    to the one whose answer failed.
    """

    def __init__(self, due_ns: Sequence[int], turns: Sequence[Turn] = ()) -> None:
        self.due_ns = list(due_ns)
        self.unsent: dict[int, int] = {}
        self._followers: defaultdict[int, list[Turn]] = defaultdict(list)
        for turn in turns:
            self._followers[turn.after].append(turn)
        waiting = {turn.request for turn in turns}
        self._first = [index for index in range(len(self.due_ns)) if index not in waiting]
        self._first_due = [self.due_ns[index] for index in self._first]
        self._next = 0
        self._later: list[tuple[int, int]] = []

    def begin_at(self, start_ns: int) -> None:
        """Turn times after the start into times of the clock."""
        self._first_due = [start_ns + due for due in self._first_due]
        for index, due in zip(self._first, self._first_due, strict=True):
            self.due_ns[index] = due

    def next_due_ns(self) -> int:
        """Return when the next request is due, NEVER where none is known."""
        due = self._first_due[self._next] if self._next < len(self._first_due) else NEVER
        if self._later and self._later[0][0] < due:
            return self._later[0][0]
        return due

    def take(self) -> int:
        """Return the next request, which leaves now."""
        if self._later and self.next_due_ns() == self._later[0][0]:
            return heappop(self._later)[1]
        self._next += 1
        return self._first[self._next - 1]

    def upcoming(self, horizon: int) -> int:
        """Return how many requests are due until then, as far as is known."""
        known = bisect_right(self._first_due, horizon, self._next) - self._next
        return known + sum(due <= horizon for due, _ in self._later)

    def has_followers(self, index: int) -> bool:
        """Whether another request waits for the answer to this one."""
        return index in self._followers

    def answered(self, index: int, now: int) -> None:
        """Take note that an answer ended: what waits for it is due its think time after."""
        for turn in self._followers[index]:
            self.due_ns[turn.request] = now + turn.think_ns
            heappush(self._later, (now + turn.think_ns, turn.request))

    def failed(self, index: int, now: int) -> int:
        """Take note that an answer failed; return how many requests will never be sent for it."""
        lost = [index]
        for before in lost:
            for turn in self._followers.get(before, ()):
                self.due_ns[turn.request] = now
                self.unsent[turn.request] = index
                lost.append(turn.request)
        return len(lost) - 1
