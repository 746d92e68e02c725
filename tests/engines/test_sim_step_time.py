"""How long a step takes, the noise on it, and waking up on time."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.engines.sim.clock import LoopAlarm, LoopClock, TimerfdAlarm
from pytest_llmperf.engines.sim.options import parse
from pytest_llmperf.engines.sim.scheduler import Batch, Sequence
from pytest_llmperf.engines.sim.step_time import FixedStepTime, Pace, StepTime, step_time_of

if TYPE_CHECKING:
    from collections.abc import Callable


def batch(prefill_tokens: int) -> Batch[Sequence]:
    return Batch((), (), (), prefill_tokens, (), ())


def test_a_step_is_a_constant_and_a_cost_a_prefill_token():
    """9 ms and 500 times 20 µs are 19 ms."""
    model = FixedStepTime(step_s=0.009, prefill_s=20e-6)
    assert [model.seconds(batch(tokens)) for tokens in (0, 500)] == pytest.approx([0.009, 0.019])


def server(*words: str) -> StepTime:
    return step_time_of(parse(words, {}))


def decodes(count: int, context: int, drafted: int = 0) -> Batch[Sequence]:
    """``count`` sequences that each compute a token, and verify drafts, after ``context``."""
    sequences = tuple(Sequence(context, 100, computed=context, generated=1) for _ in range(count))
    tokens = (1 + drafted,) * count
    return Batch(sequences, tokens, sequences, 0, (), (), (drafted,) * count)


def prefill(tokens: int) -> Batch[Sequence]:
    sequence = Sequence(tokens, 100)
    return Batch((sequence,), (tokens,), (sequence,), tokens, (), (sequence,), (0,))


@pytest.mark.parametrize(
    ("words", "measured_ms"),
    [
        (("qwen3-14b",), 8.74),
        (("qwen3-14b-awq",), 6.30),
        (("qwen3-14b", "-tp", "2"), 5.86),
    ],
)
def test_a_decode_takes_as_long_as_on_a_real_h200(words: tuple[str, ...], measured_ms: float):
    """Within 5 % of the median ITL of ten ShareGPT answers at once (context: 340 on average)."""
    assert server(*words).seconds(decodes(10, 340)) * 1e3 == pytest.approx(measured_ms, rel=0.05)


def test_a_prefill_takes_as_long_as_on_a_real_h200():
    """256 tokens that no prefix cache had: the 99th percentile of the ITL there was 14.3 ms."""
    assert server("qwen3-14b").seconds(prefill(256)) * 1e3 == pytest.approx(14.3, rel=0.1)


def test_drafts_take_as_long_as_on_a_real_h200():
    """Four passes of a 0.6B model, launched layer by layer: 49.2 and 59.0 ms a step, measured."""
    draft = '{"model": "qwen3-0.6b", "num_speculative_tokens": 4}'
    step = server("qwen3-14b", "-sc", draft).seconds(decodes(10, 340, drafted=4))
    assert 0.0492 * 0.95 < step < 0.0590


def test_the_gpu_makes_the_difference():
    """Memory bandwidth decides a decode: 864, 2,039, 3,350 and 4,800 GB/s."""
    times = [
        server("qwen3-14b", "--sim-gpu", gpu).seconds(decodes(10, 340))
        for gpu in ("l40s", "a100", "h100", "h200")
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] * 1e3 == pytest.approx(41, rel=0.05)


def test_pcie_costs_more_than_nvlink():
    """The same GPUs and the same work; one GPU does not care."""
    two, one = ("qwen3-14b", "-tp", "2"), ("qwen3-14b",)
    pcie = ("--sim-interconnect", "pcie")
    work = decodes(10, 340)
    assert server(*two, *pcie).seconds(work) > server(*two).seconds(work)
    assert server(*one, *pcie).seconds(work) == server(*one).seconds(work)


def test_without_graphs_the_host_can_be_the_slower_one():
    """4 ms to prepare and 40 layers of 0.2 ms are 12 ms, where the GPU needs 8.9."""
    eager = server("qwen3-14b", "--enforce-eager")
    assert eager.seconds(decodes(10, 340)) == pytest.approx(12e-3)
    assert eager.seconds(prefill(1000)) == server("qwen3-14b").seconds(prefill(1000))


def test_a_small_model_waits_for_the_host():
    """135 million parameters are read in a moment: the host's 4 ms are a step."""
    assert server("SmolLM2-135M").seconds(decodes(1, 10)) == pytest.approx(4e-3)


def test_n_grams_cost_the_host_alone():
    """4 ms that nothing hides and 10 look-ups of 0.05 ms, beside verifying: 4.5 ms."""
    lookup = '{"method": "ngram", "num_speculative_tokens": 4}'
    work = decodes(10, 340, drafted=4)
    speculative, plain = server("qwen3-14b", "-sc", lookup), server("qwen3-14b")
    assert speculative.seconds(work) - plain.seconds(work) == pytest.approx(4.5e-3)


def test_each_draft_is_a_pass():
    """Two more drafts: two passes of 28 layers of 0.2 ms, each prepared in 4 ms: 19.2 ms."""
    config = '{{"model": "qwen3-0.6b", "num_speculative_tokens": {}}}'
    four, two = (server("qwen3-14b", "-sc", config.format(count)) for count in (4, 2))
    work = decodes(10, 340, drafted=2)
    assert four.seconds(work) - two.seconds(work) == pytest.approx(19.2e-3)


def test_a_step_that_samples_nothing_drafts_nothing():
    """The first chunk of a long prompt."""
    lookup = '{"method": "ngram", "num_speculative_tokens": 4}'
    sequence = Sequence(4000, 100)
    chunk = Batch((sequence,), (2000,), (), 2000, (), (sequence,), ())
    difference = server("qwen3-14b", "-sc", lookup).seconds(chunk) - server("qwen3-14b").seconds(
        chunk
    )
    assert difference == pytest.approx(4e-3)


def test_a_time_that_is_given_is_the_time():
    """Either argument makes steps fixed; the other one is then 9 ms or 20 µs."""
    assert server("M", "--sim-step-ms", "2") == FixedStepTime(0.002, 20e-6)
    assert server("M", "--sim-prefill-us-per-token", "0") == FixedStepTime(0.009, 0.0)
    both = server("M", "--sim-step-ms", "2", "--sim-prefill-us-per-token", "5", "-tp", "2")
    assert both == FixedStepTime(0.002, 5e-6)


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
