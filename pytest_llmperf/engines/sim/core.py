"""The engine's loop: plan a step, let its time pass, give its tokens out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from pytest_llmperf.engines.sim.scheduler import Batch, Scheduler, Sequence

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_llmperf.engines.sim.clock import Clock
    from pytest_llmperf.engines.sim.metrics import Metrics
    from pytest_llmperf.engines.sim.step_time import Pace, StepTime

CATCH_UP_S = 0.25
"""Lateness that later steps make up for, so that a busy host does not slow the engine down.

A host that slept longer than this has not been serving, and the engine starts anew from now.
"""

Finish = Literal["stop", "length"]


class Reply(Protocol):
    """Turns tokens into bytes, and sends them."""

    def render(self, tokens: int, finish: Finish | None) -> bytes:
        """Return what to send when the ``tokens``-th token exists; ``finish``: it is the last."""

    def send(self, data: bytes, *, last: bool) -> None:
        """Send what ``render`` returned."""


@dataclass(slots=True, eq=False, kw_only=True)
class Job(Sequence):
    """A request with its reply and what the metrics need. Times are ``time.monotonic()``'s.

    ``pace`` is the factor that the noise of its replay puts on a step time.
    """

    reply: Reply
    finish: Finish
    pace: float
    asked_tokens: int
    arrived: float
    scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None


class EngineCore:
    """Lets a step's time pass on a clock. Deadlines are absolute, so lateness does not add up.

    ``on_active`` is called when work arrives at an idle engine.
    """

    def __init__(
        self,
        scheduler: Scheduler[Job],
        step_time: StepTime,
        pace: Pace,
        metrics: Metrics,
        clock: Clock,
        on_active: Callable[[], None],
    ) -> None:
        self.scheduler = scheduler
        self.metrics = metrics
        self.pace = pace
        self._step_time = step_time
        self._on_active = on_active
        self._clock = clock
        self._alarm = clock.alarm(self._finish_step)
        self._batch: Batch[Job] | None = None
        self._outputs: list[tuple[Job, bytes]] = []
        self._deadline = 0.0
        self._starting = False

    def submit(self, job: Job) -> None:
        """Queue a job. Whatever else arrives in this turn of the loop joins the same step."""
        self.scheduler.add(job)
        if self._batch is None and not self._starting:
            self._starting = True
            self._clock.soon(self._start)
            self._on_active()

    def cancel(self, job: Job) -> None:
        """Drop a job whose client is gone."""
        self.scheduler.abort(job)
        self.metrics.aborted()

    def close(self) -> None:
        """Stop for good."""
        self._alarm.close()

    def _start(self) -> None:
        self._starting = False
        self._begin_step(self._clock.now())

    def _begin_step(self, start: float) -> None:
        self._batch = batch = self.scheduler.schedule()
        if batch is None:
            return
        now = self._clock.now()
        for job in batch.admitted:
            if job.scheduled is None:
                job.scheduled = now
                self.metrics.admitted(job)
        self.metrics.preempted(len(batch.preempted))
        noise = sum(job.pace for job in batch.sequences) / len(batch.sequences)
        seconds = self._step_time.seconds(batch) * self.pace.launch * noise
        self._deadline = start + seconds
        self._alarm.set(self._deadline)
        # The time until the step's end is used to build what will be sent then.
        self._outputs = [(job, _output(job)) for job in batch.sampling]

    def _finish_step(self) -> None:
        batch, outputs = self._batch, self._outputs
        if batch is None:
            return
        now = self._clock.now()
        sampled = self.scheduler.complete(batch)
        alive = set(sampled)  # a client may have gone while the step ran
        for job, data in outputs:
            if job in alive:
                job.reply.send(data, last=job.generated >= job.max_tokens)
        self.metrics.stepped(sampled, now)
        for job in sampled:
            if job.generated >= job.max_tokens:
                self.metrics.finished(job, job.finish, now)
        self._begin_step(self._deadline if now - self._deadline < CATCH_UP_S else now)


def _output(job: Job) -> bytes:
    tokens = job.generated + 1
    return job.reply.render(tokens, job.finish if tokens >= job.max_tokens else None)
