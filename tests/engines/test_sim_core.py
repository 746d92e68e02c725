"""The engine's loop in virtual time: when each token is sent, to the millisecond."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.engines.sim.core import EngineCore, Finish, Job
from pytest_llmperf.engines.sim.metrics import Metrics, token_bounds
from pytest_llmperf.engines.sim.scheduler import Limits, Scheduler
from pytest_llmperf.engines.sim.step_time import FixedStepTime, Pace

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER = float("inf")


class VirtualAlarm:
    """Rings when the clock is told to go on. ``late``: seconds that the next ring comes late."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.due = NEVER

    def set(self, when: float) -> None:
        """Ring at ``when``."""
        self.due = when

    def close(self) -> None:
        """Ring no more."""
        self.due = NEVER


class VirtualClock:
    """Time that goes on only when it is told to; ``lateness`` delays the rings to come."""

    def __init__(self) -> None:
        self.time = 0.0
        self.lateness = 0.0
        self.calls: list[Callable[[], None]] = []
        self.bell = VirtualAlarm(lambda: None)

    def now(self) -> float:
        """Return the virtual time."""
        return self.time

    def soon(self, callback: Callable[[], None]) -> None:
        """Keep the call for the next turn."""
        self.calls.append(callback)

    def alarm(self, callback: Callable[[], None]) -> VirtualAlarm:
        """Return the one alarm."""
        self.bell = VirtualAlarm(callback)
        return self.bell

    def run(self, until: float = NEVER) -> None:
        """Let time pass until nothing is due before ``until``."""
        while True:
            calls, self.calls = self.calls, []
            for call in calls:
                call()
            due = max(self.bell.due + self.lateness, self.time)
            if due > until or due == NEVER:
                self.time = max(self.time, until) if until != NEVER else self.time
                return
            self.time, self.bell.due = due, NEVER
            self.bell.callback()


class Recorder:
    """A reply that notes when what was sent."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.sent: list[tuple[float, bytes]] = []
        self.ended = False

    def render(self, tokens: int, finish: Finish | None) -> bytes:
        """Return the token's number and, with the last, why it is."""
        return f"{tokens}{finish or ''}".encode()

    def send(self, data: bytes, *, last: bool) -> None:
        """Note the time in milliseconds."""
        self.sent.append((round(self.clock.time * 1e3, 3), data))
        self.ended = last

    @property
    def times(self) -> list[float]:
        """When something was sent, in milliseconds."""
        return [time for time, _ in self.sent]


class Bench:
    """An engine with steps of 10 ms and 0.1 ms a prefill token, 4 sequences, 50 tokens a step."""

    def __init__(self, slowdown: float = 1.0) -> None:
        self.clock = VirtualClock()
        scheduler: Scheduler[Job] = Scheduler(Limits(4, 50, 100))
        self.metrics = Metrics(1000, prefix_caching=True)
        self.activations = 0
        self.core = EngineCore(
            scheduler,
            FixedStepTime(0.010, 0.0001),
            Pace(slowdown, 0.0, 0.0, None),
            self.metrics,
            self.clock,
            self.activate,
        )

    def activate(self) -> None:
        """Count the times that work came to an idle engine."""
        self.activations += 1

    def submit(self, prompt: int, tokens: int, pace: float = 1.0) -> tuple[Job, Recorder]:
        """Submit a job now."""
        reply = Recorder(self.clock)
        job = Job(
            prompt_tokens=prompt,
            max_tokens=tokens,
            reply=reply,
            finish="length",
            pace=pace,
            asked_tokens=tokens,
            arrived=self.clock.now(),
        )
        self.core.submit(job)
        return job, reply


def test_tokens_come_at_the_ends_of_steps():
    """A prompt of 20: the first step takes 10 + 2 ms, the others 10 ms."""
    bench = Bench()
    _, reply = bench.submit(prompt=20, tokens=3)
    bench.clock.run()
    assert reply.sent == [(12.0, b"1"), (22.0, b"2"), (32.0, b"3length")]
    assert reply.ended


def test_a_long_prompt_takes_several_steps():
    """120 tokens at 50 a step: 15 + 15 + 12 ms until the first token."""
    bench = Bench()
    _, reply = bench.submit(prompt=120, tokens=1)
    bench.clock.run()
    assert reply.times == [42.0]


def test_what_arrives_in_one_turn_shares_the_first_step():
    """Two prompts of 20 in one step: 10 + 4 ms, and everything after it together."""
    bench = Bench()
    replies = [bench.submit(prompt=20, tokens=2)[1] for _ in range(2)]
    bench.clock.run()
    assert [reply.times for reply in replies] == [[14.0, 24.0]] * 2
    assert bench.activations == 1


def test_a_prefill_delays_those_who_decode():
    """A prompt of 30 that arrives at 15 ms joins the step from 22 ms on and costs 3 ms there."""
    bench = Bench()
    _, first = bench.submit(prompt=20, tokens=4)
    bench.clock.run(until=0.015)
    _, second = bench.submit(prompt=30, tokens=1)
    bench.clock.run()
    assert first.times == [12.0, 22.0, 35.0, 45.0]
    assert second.times == [35.0]


def test_slowdown_and_noise_multiply_the_step():
    """10 ms times 1.5 for the launch times the mean of the replays' 1.0 and 1.2 in a shared step."""
    bench = Bench(slowdown=1.5)
    _, one = bench.submit(prompt=10, tokens=2)
    bench.submit(prompt=10, tokens=2, pace=1.2)
    bench.clock.run()
    assert one.times == pytest.approx([12 * 1.5 * 1.1, 22 * 1.5 * 1.1])


def test_lateness_does_not_add_up():
    """Each wake-up 1 ms late: tokens come 1 ms late, not 1, 2, 3."""
    bench = Bench()
    bench.clock.lateness = 0.001
    _, reply = bench.submit(prompt=20, tokens=3)
    bench.clock.run()
    assert reply.times == [13.0, 23.0, 33.0]


def test_a_short_stall_is_made_up_for_and_a_long_one_is_not():
    """100 ms late: the next steps follow at once until the schedule is met. 1 s late: anew."""
    times = []
    for stall in (0.1, 1.0):
        bench = Bench()
        _, reply = bench.submit(prompt=20, tokens=4)
        bench.clock.run(until=0.013)
        bench.clock.lateness = stall
        bench.clock.run(until=0.022 + stall + 1e-9)
        bench.clock.lateness = 0.0
        bench.clock.run()
        times.append(reply.times)
    assert times == [[12.0, 122.0, 122.0, 122.0], [12.0, 1022.0, 1032.0, 1042.0]]


def test_a_cancelled_job_gets_nothing_more():
    """The other one's tokens keep their times; the metrics count an abort."""
    bench = Bench()
    gone, silent = bench.submit(prompt=10, tokens=5)
    _, other = bench.submit(prompt=10, tokens=3)
    bench.clock.run(until=0.015)
    bench.core.cancel(gone)
    bench.clock.run()
    assert silent.times == [12.0]
    assert other.times == [12.0, 22.0, 32.0]
    assert bench.metrics.finished_by_reason["abort"] == 1


def test_the_metrics_of_a_job_are_its_times():
    """Waits 12 ms for a seat's step, 12 ms of prefill, 20 ms of decode for 2 more tokens."""
    bench = Bench()
    bench.submit(prompt=20, tokens=1)
    bench.clock.run(until=0.0)
    bench.submit(prompt=20, tokens=3)
    bench.clock.run()
    sums = {name: histogram.sum for name, histogram in bench.metrics.histograms.items()}
    assert sums["request_queue_time_seconds"] == pytest.approx(0.012)
    assert sums["request_prefill_time_seconds"] == pytest.approx(0.012 + 0.012)
    assert sums["request_decode_time_seconds"] == pytest.approx(0.020)
    assert sums["e2e_request_latency_seconds"] == pytest.approx(0.012 + 0.044)
    assert sums["time_to_first_token_seconds"] == pytest.approx(0.012 + 0.024)
    assert sums["inter_token_latency_seconds"] == pytest.approx(0.020)
    assert sums["request_time_per_output_token_seconds"] == pytest.approx(0.010)
    assert sums["iteration_tokens_total"] == 20 + 1 + 20 + 1 + 2


def test_token_bounds_are_vllms():
    """1, 2, 5, 10, ... up to the greatest length, as in the page of an H200 server."""
    expected = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
    assert token_bounds(8192) == expected
