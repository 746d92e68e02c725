"""The engine's loop in virtual time: when each token is sent, to the millisecond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.engines.sim.assembly import build_scheduler
from pytest_llmperf.engines.sim.core import EngineCore, Finish, Job
from pytest_llmperf.engines.sim.drafting import Drafting
from pytest_llmperf.engines.sim.memory import Budget
from pytest_llmperf.engines.sim.metrics import Metrics
from pytest_llmperf.engines.sim.options import parse
from pytest_llmperf.engines.sim.prefix import Chain
from pytest_llmperf.engines.sim.scheduler import Limits, Scheduler
from pytest_llmperf.engines.sim.step_time import FixedStepTime, Pace
from pytest_llmperf.engines.sim.tokens import pack, script

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER = float("inf")
BUDGET = Budget(1.0, 1.0, 1000, 16, 1000)
"""Of memory: 1,000 blocks of 16 tokens."""
AT_ONCE = ("--no-async-scheduling",)


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
        self.cached = 0

    def render(self, tokens: int, new: int, finish: Finish | None, cached: int) -> bytes:
        """Return the last token's number, how many are new if several, and why it is the last."""
        self.cached = cached
        return f"{tokens}{f'+{new}' if new > 1 else ''}{finish or ''}".encode()

    def send(self, data: bytes, *, last: bool) -> None:
        """Note the time in milliseconds."""
        self.sent.append((round(self.clock.time * 1e3, 3), data))
        self.ended = last

    @property
    def times(self) -> list[float]:
        """When something was sent, in milliseconds."""
        return [time for time, _ in self.sent]


class Bench:
    """An engine with steps of 10 ms and 0.1 ms a prefill token, 4 sequences, 50 tokens a step.

    Without a ``scheduler`` of its own it plans each step when it begins.
    """

    def __init__(
        self,
        slowdown: float = 1.0,
        drafting: Drafting | None = None,
        scheduler: Scheduler[Job] | None = None,
        prefill_s: float = 0.0001,
    ) -> None:
        self.clock = VirtualClock()
        self.metrics = Metrics(1000, prefix_caching=True)
        self.activations = 0
        self.core = EngineCore(
            scheduler or Scheduler(Limits(4, 50, 100)),
            FixedStepTime(0.010, prefill_s),
            Pace(slowdown, 0.0, 0.0, None),
            self.metrics,
            self.clock,
            self.activate,
            drafting,
        )

    def activate(self) -> None:
        """Count the times that work came to an idle engine."""
        self.activations += 1

    def submit(
        self, prompt: int, tokens: int, pace: float = 1.0, chain: Chain | None = None
    ) -> tuple[Job, Recorder]:
        """Submit a job now."""
        reply = Recorder(self.clock)
        job = Job(
            prompt_tokens=prompt,
            max_tokens=tokens,
            chain=chain,
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


def served(*words: str) -> Bench:
    """Return an engine as the arguments ask for it, with steps of 10 ms whatever runs in them."""
    scheduler: Scheduler[Job] = build_scheduler(parse(("M", *words), {}), BUDGET)
    return Bench(scheduler=scheduler, prefill_s=0.0)


@pytest.mark.parametrize(
    ("words", "first_ms"), [((), 30.0), (("--async-scheduling",), 30.0), (AT_ONCE, 20.0)]
)
def test_who_arrives_during_a_step_joins_the_next_but_one(words: tuple[str, ...], first_ms: float):
    """Steps end at 10, 20 and 30 ms. At 3 ms the one from 10 ms on is planned already.

    So a request that arrives then runs from 20 ms on; with ``--no-async-scheduling`` from 10 ms
    on. Those who run already keep their times.
    """
    bench = served(*words)
    _, running = bench.submit(prompt=20, tokens=5)
    bench.clock.run(until=0.003)
    _, late = bench.submit(prompt=20, tokens=2)
    bench.clock.run()
    assert running.times == [10.0, 20.0, 30.0, 40.0, 50.0]
    assert late.times == [first_ms, first_ms + 10]


def test_an_idle_engine_starts_at_once():
    """At 0 ms, and at 25 ms when nothing has run since 20 ms: 10 ms later there is a token."""
    bench = served()
    _, first = bench.submit(prompt=20, tokens=2)
    bench.clock.run(until=0.025)
    _, second = bench.submit(prompt=20, tokens=1)
    bench.clock.run()
    assert (first.times, second.times) == ([10.0, 20.0], [35.0])


def test_a_step_that_would_be_empty_is_not_waited_for():
    """The only one that runs is done at 10 ms, so that who came at 3 ms runs from then on."""
    bench = served()
    bench.submit(prompt=20, tokens=1)
    bench.clock.run(until=0.003)
    _, late = bench.submit(prompt=20, tokens=1)
    bench.clock.run()
    assert late.times == [20.0]


def test_who_goes_before_the_next_step_is_planned_never_runs():
    """Arrives at 3 ms, is gone at 5 ms: no token, one abort; the other one's times stay."""
    bench = served()
    _, running = bench.submit(prompt=20, tokens=4)
    bench.clock.run(until=0.003)
    gone, silent = bench.submit(prompt=20, tokens=4)
    bench.clock.run(until=0.005)
    bench.core.cancel(gone)
    bench.clock.run()
    assert (running.times, silent.times) == ([10.0, 20.0, 30.0, 40.0], [])
    assert bench.metrics.finished_by_reason["abort"] == 1


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


@dataclass(frozen=True)
class Asked:
    """Speculation as ``--speculative-config`` asks for it."""

    tokens: int
    rate: float
    method: str = "draft_model"


def test_accepted_drafts_come_in_one_piece():
    """4 drafts that are always right: the prefill's 1, then 5 and 5 in a step each, then 1 of 5."""
    bench = Bench(drafting=Drafting(Asked(tokens=4, rate=1.0)))
    _, reply = bench.submit(prompt=20, tokens=12)
    bench.clock.run()
    assert reply.sent == [(12.0, b"1"), (22.0, b"6+5"), (32.0, b"11+5"), (42.0, b"12length")]
    assert bench.metrics.generation_tokens == 12


def test_what_was_drafted_and_accepted_is_counted():
    """The last step's 4 right drafts count, though the answer had room for none of them."""
    bench = Bench(drafting=Drafting(Asked(tokens=4, rate=1.0)))
    bench.submit(prompt=20, tokens=12)
    bench.clock.run()
    assert bench.metrics.spec_decode is not None
    assert bench.metrics.spec_decode.values() == (3, 12, 12, 3, 3, 3, 3)


def test_drafts_that_are_never_right_cost_nothing_but_the_step():
    """One token a step, as without them; each step's draft is counted, nothing as accepted."""
    bench = Bench(drafting=Drafting(Asked(tokens=2, rate=0.0)))
    _, reply = bench.submit(prompt=20, tokens=3)
    bench.clock.run()
    assert reply.sent == [(12.0, b"1"), (22.0, b"2"), (32.0, b"3length")]
    assert bench.metrics.spec_decode is not None
    assert bench.metrics.spec_decode.values() == (2, 4, 0, 0, 0)


def test_tokens_that_come_together_are_one_latency():
    """1 + 5 + 5 + 1 tokens in 3 gaps of 10 ms: three latencies, as vLLM counts them."""
    bench = Bench(drafting=Drafting(Asked(tokens=4, rate=1.0)))
    bench.submit(prompt=20, tokens=12)
    bench.clock.run()
    latencies = bench.metrics.histograms["inter_token_latency_seconds"]
    assert (sum(latencies.counts), latencies.sum) == (3, pytest.approx(0.030))


def test_a_prompt_that_is_known_already_is_computed_faster():
    """48 tokens: 10 + 4.8 ms. Again: 2 of 3 full blocks are found, 16 tokens cost 1.6 ms."""
    bench = Bench()
    packed = pack(range(48))
    replies = []
    for _ in range(2):
        chain = Chain(packed, 16, None, script(packed))
        started = bench.clock.now()
        _, reply = bench.submit(prompt=48, tokens=1, chain=chain)
        bench.clock.run()
        replies.append((round(reply.times[0] - started * 1e3, 3), reply.cached))
    assert replies == [(14.8, 0), (11.6, 32)]
    metrics = bench.metrics
    assert (metrics.prefix_queries, metrics.prefix_hits) == (96, 32)
    assert (metrics.prompt_tokens, metrics.cached_prompt_tokens) == (96, 32)
    assert metrics.histograms["request_prefill_kv_computed_tokens"].sum == 48 + 16
    assert metrics.recent_hit_rate == pytest.approx(32 / 96)


def test_a_halted_engine_gives_no_more_tokens():
    """The step under way never ends, and what comes later waits for ever."""
    bench = Bench()
    _, reply = bench.submit(prompt=20, tokens=5)
    bench.clock.run(until=0.015)
    bench.core.halt()
    _, late = bench.submit(prompt=20, tokens=5)
    bench.clock.run(until=10.0)
    assert (reply.times, late.times) == ([12.0], [])


def test_a_throttle_is_asked_at_every_step():
    """Twice as slow from 20 ms on: the step that begins at 12 ms is not, the next is."""
    bench = Bench()
    bench.core.throttle = lambda: 2.0 if bench.clock.now() > 0.020 else 1.0
    _, reply = bench.submit(prompt=20, tokens=4)
    bench.clock.run()
    assert reply.times == [12.0, 22.0, 42.0, 62.0]


def test_a_job_that_is_done_cannot_be_cancelled():
    """A client that closes after its last token is no abort."""
    bench = Bench()
    job, _ = bench.submit(prompt=20, tokens=1)
    bench.clock.run()
    bench.core.cancel(job)
    assert bench.metrics.finished_by_reason["abort"] == 0
