"""How long a step takes, the noise on it, and waking up on time."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.engines.sim.clock import LoopAlarm, LoopClock, TimerfdAlarm
from pytest_llmperf.engines.sim.scheduler import Batch, Sequence
from pytest_llmperf.engines.sim.step_time import FixedStepTime, Pace

if TYPE_CHECKING:
    from collections.abc import Callable


def batch(prefill_tokens: int) -> Batch[Sequence]:
    return Batch((), (), (), prefill_tokens, (), ())


def test_a_step_is_a_constant_and_a_cost_a_prefill_token():
    """9 ms and 500 times 20 µs are 19 ms."""
    model = FixedStepTime(step_s=0.009, prefill_s=20e-6)
    assert [model.seconds(batch(tokens)) for tokens in (0, 500)] == pytest.approx([0.009, 0.019])


def test_without_noise_the_pace_is_the_slowdown():
    """No draw moves a factor whose standard deviation is 0."""
    pace = Pace(1.1, launch_sd=0.0, replay_sd=0.0, seed=None)
    assert (pace.launch, pace.replay("a"), pace.replay(None)) == (1.1, 1.0, 1.0)


def test_a_replay_keeps_its_factor_and_another_has_its_own():
    """One factor a cache salt; requests without a salt have none."""
    pace = Pace(1.0, launch_sd=0.0, replay_sd=0.1, seed=1)
    first = pace.replay("a")
    assert pace.replay("b") != first
    assert (pace.replay("a"), pace.replay(None)) == (first, 1.0)


def test_a_seed_repeats_a_launch_whatever_the_salts_are_called():
    """The n-th salt has the n-th factor; without a seed each launch differs."""
    one, two = (Pace(1.0, 0.1, 0.1, seed=7) for _ in range(2))
    other, another = (Pace(1.0, 0.1, 0.1, seed=None) for _ in range(2))
    assert one.launch == two.launch
    assert [one.replay("a"), one.replay("b")] == [two.replay("x"), two.replay("y")]
    assert other.launch != another.launch


def test_the_noise_has_the_spread_asked_for():
    """2,000 launches with 2 %: the standard deviation of the logarithm is 0.02."""
    logs = [math.log(Pace(1.0, 0.02, 0.0, seed=seed).launch) for seed in range(2000)]
    assert statistics.fmean(logs) == pytest.approx(0.0, abs=0.002)
    assert statistics.stdev(logs) == pytest.approx(0.02, rel=0.1)


def test_salts_do_not_pile_up():
    """A client that sends a new salt with every request costs no memory in the end."""
    pace = Pace(1.0, 0.0, 0.1, seed=1)
    for number in range(1000):
        pace.replay(str(number))
    assert len(pace._salts) == 256


@pytest.mark.parametrize("kind", [TimerfdAlarm, LoopAlarm])
def test_an_alarm_rings_once_and_never_early(kind: Callable[..., TimerfdAlarm | LoopAlarm]):
    """Set anew, only the later time counts; a time that is past rings at once."""

    async def rings() -> list[float]:
        loop = asyncio.get_running_loop()
        heard: list[float] = []
        ring = asyncio.Event()

        def on_ring() -> None:
            heard.append(time.monotonic())
            ring.set()

        bell = kind(loop, on_ring)
        due = time.monotonic() + 0.03
        bell.set(due - 0.02)
        bell.set(due)
        await asyncio.wait_for(ring.wait(), 5)
        await asyncio.sleep(0.02)
        ring.clear()
        bell.set(due)
        await asyncio.wait_for(ring.wait(), 5)
        bell.close()
        return [heard[0] - due, float(len(heard))]

    late, count = asyncio.run(rings())
    assert count == 2
    assert late >= 0


def test_linux_has_the_true_alarm():
    """Here the kernel's timer is used, which is not rounded to milliseconds."""

    async def kind() -> type:
        bell = LoopClock(asyncio.get_running_loop()).alarm(lambda: None)
        bell.close()
        return type(bell)

    assert asyncio.run(kind()) is TimerfdAlarm
