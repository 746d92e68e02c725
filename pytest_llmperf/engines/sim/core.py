"""The engine's loop: plan a step, let its time pass, give its tokens out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from pytest_llmperf.engines.sim.metrics import SpecCounts
from pytest_llmperf.engines.sim.scheduler import Batch, Scheduler, Sequence, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_llmperf.engines.sim.clock import Clock
    from pytest_llmperf.engines.sim.drafting import Drafting
    from pytest_llmperf.engines.sim.metrics import Metrics
    from pytest_llmperf.engines.sim.step_time import Pace, StepTime

CATCH_UP_S = 0.25
"""Lateness that later steps make up for, so that a busy host does not slow the engine down.

A host that slept longer than this has not been serving, and the engine starts anew from now.
"""

Finish = Literal["stop", "length"]


class Reply(Protocol):
    """Turns tokens into bytes, and sends them."""

    def render(self, tokens: int, new: int, finish: Finish | None, cached: int) -> bytes:
        """Return what to send when there are ``tokens``, the last ``new`` of them from this step.

        ``finish``: there will be no more. ``cached``: tokens of the prompt that the cache had.
        """

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

    ``on_active`` is called when work arrives at an idle engine. ``drafting``: speculative
    decoding. ``throttle`` may be set to what says the factor on the step that begins.
    """

    def __init__(
        self,
        scheduler: Scheduler[Job],
        step_time: StepTime,
        pace: Pace,
        metrics: Metrics,
        clock: Clock,
        on_active: Callable[[], None],
        drafting: Drafting | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.metrics = metrics
        self.pace = pace
        self.throttle: Callable[[], float] | None = None
        self._step_time = step_time
        self._on_active = on_active
        self._clock = clock
        self._drafting = drafting
        self._alarm = clock.alarm(self._finish_step)
        self._batch: Batch[Job] | None = None
        self._gained: tuple[int, ...] | None = None
        self._outputs: list[tuple[Job, int, bytes]] = []
        self._deadline = 0.0
        self._starting = False
        self._halted = False
        if drafting is not None:
            metrics.spec_decode = SpecCounts(drafting.tokens)

    def submit(self, job: Job) -> None:
        """Queue a job. Whatever else arrives in this turn of the loop joins the same step."""
        self.scheduler.add(job)
        if self._batch is None and not self._starting:
            self._starting = True
            self._clock.soon(self._start)
            self._on_active()

    def cancel(self, job: Job) -> None:
        """Drop a job whose client is gone, unless it is done."""
        if job.state is not State.DONE:
            self.scheduler.abort(job)
            self.metrics.aborted()

    def halt(self) -> None:
        """Give no more tokens: the step under way never ends, as with a kernel that hangs."""
        self._halted = True

    def close(self) -> None:
        """Stop for good."""
        self._alarm.close()

    def _start(self) -> None:
        self._starting = False
        self._begin_step(self._clock.now())

    def _begin_step(self, start: float) -> None:
        self._batch = batch = self.scheduler.schedule(self._drafting)
        if batch is None:
            return
        now = self._clock.now()
        for job in batch.admitted:
            if job.scheduled is None:
                job.scheduled = now
                self.metrics.admitted(job)
        self.metrics.preempted(len(batch.preempted))
        noise = sum(job.pace for job in batch.sequences) / len(batch.sequences)
        factor = self.pace.launch * noise * (self.throttle() if self.throttle else 1.0)
        self._deadline = start + self._step_time.seconds(batch) * factor
        self._alarm.set(self._deadline)
        # The time until the step's end is used to build what will be sent then.
        self._gained = self._accept(batch)
        gained = self._gained or (1,) * len(batch.sampling)
        self._outputs = [_output(*pair) for pair in zip(batch.sampling, gained, strict=True)]

    def _accept(self, batch: Batch[Job]) -> tuple[int, ...] | None:
        """Return how many tokens each of ``batch.sampling`` gets; None: one each."""
        if self._drafting is None:
            return None
        accepted = self._drafting.accepted
        pairs = zip(batch.sampling, batch.drafted, strict=True)
        return tuple(1 + accepted(job, drafted) for job, drafted in pairs)

    def _finish_step(self) -> None:
        batch = self._batch
        if batch is None or self._halted:
            return
        now = self._clock.now()
        sampled = self.scheduler.complete(batch, self._gained)
        alive = set(sampled)  # a client may have gone while the step ran
        tokens = 0
        for job, new, data in self._outputs:
            if job in alive:
                tokens += new
                job.reply.send(data, last=job.generated >= job.max_tokens)
        self.metrics.stepped(sampled, tokens, now)
        self._count_drafts(batch, alive)
        for job in sampled:
            if job.generated >= job.max_tokens:
                self.metrics.finished(job, job.finish, now)
        self._begin_step(self._deadline if now - self._deadline < CATCH_UP_S else now)

    def _count_drafts(self, batch: Batch[Job], alive: set[Job]) -> None:
        if self.metrics.spec_decode is None or self._gained is None:
            return
        for job, drafted, gain in zip(batch.sampling, batch.drafted, self._gained, strict=True):
            if job in alive:
                self.metrics.spec_decode.observe(drafted, gain - 1)


def _output(job: Job, gain: int) -> tuple[Job, int, bytes]:
    """Return the job, its new tokens as far as it may have them, and what is sent for them."""
    new = min(gain, job.max_tokens - job.generated)
    tokens = job.generated + new
    finish = job.finish if tokens >= job.max_tokens else None
    return job, new, job.reply.render(tokens, new, finish, job.cached_tokens or 0)
