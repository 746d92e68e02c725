"""Scheduling a step ahead, as vLLM does it where nothing forbids it (``--async-scheduling``).

While a step runs, the next one is planned already. Who arrives meanwhile joins the one after it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pytest_llmperf.engines.sim.scheduler import S, Scheduler, State

if TYPE_CHECKING:
    from pytest_llmperf.engines.sim.scheduler import Batch, Drafts, Limits


class AsyncScheduler(Scheduler[S]):
    """Holds what arrives while a step runs until the next step is planned.

    A step runs from a ``schedule`` that returned one to the next ``schedule``. Who arrives at an
    idle engine is in its first step. Only arrivals are a step late: places and KV blocks that the
    running step frees are there for the next one, for which vLLM has planned without them.
    """

    def __init__(
        self, limits: Limits, *, prefix_caching: bool = True, chunked_prefill: bool = True
    ) -> None:
        super().__init__(limits, prefix_caching=prefix_caching, chunked_prefill=chunked_prefill)
        self._arrived: deque[S] = deque()
        self._runs = False

    @property
    def queued(self) -> int:
        """Sequences that wait for their admission."""
        return super().queued + len(self._arrived)

    def add(self, sequence: S) -> None:
        """Queue a sequence. Raise ValueError for one that could never fit, which would hang."""
        super().add(sequence)
        if self._runs:
            self._arrived.append(self.waiting.pop())

    def abort(self, sequence: S) -> None:
        """Forget a sequence, wherever it is; a step under way goes on without its token."""
        if sequence in self._arrived:
            self._arrived.remove(sequence)
            self._release(sequence, State.DONE)
        else:
            super().abort(sequence)

    def schedule(self, drafts: Drafts[S] | None = None) -> Batch[S] | None:
        """Plan the next step without those who arrived during the last; None: nothing to do.

        Where only they are left, nothing is under way that they could be late for.
        """
        batch = super().schedule(drafts)
        self.waiting += self._arrived
        self._arrived.clear()
        batch = batch or super().schedule(drafts)
        self._runs = batch is not None
        return batch
