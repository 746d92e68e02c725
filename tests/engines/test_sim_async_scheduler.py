"""Scheduling a step ahead: who is in a step, and who waits. No clock."""

from __future__ import annotations

import pytest

from pytest_llmperf.engines.sim.async_scheduler import AsyncScheduler
from pytest_llmperf.engines.sim.scheduler import Limits, Sequence, State


def busy(blocks: int = 100) -> tuple[AsyncScheduler[Sequence], Sequence]:
    """Return a scheduler whose first step runs, and who is in it: 10 tokens in, 9 out."""
    engine: AsyncScheduler[Sequence] = AsyncScheduler(Limits(8, 100, blocks, 16))
    first = Sequence(10, 9)
    engine.add(first)
    assert engine.schedule() is not None
    return engine, first


def members(engine: AsyncScheduler[Sequence]) -> tuple[Sequence, ...]:
    """Plan a step and finish it; return who was in it."""
    batch = engine.schedule()
    assert batch is not None
    engine.complete(batch)
    return batch.sequences


def test_who_arrives_while_a_step_runs_is_in_the_step_after_the_next():
    """Two arrive in two steps: each is one step later than it could be, in their order."""
    engine, first = busy()
    second, third = Sequence(10, 9), Sequence(10, 9)
    engine.add(second)
    assert members(engine) == (first,)
    engine.add(third)
    assert members(engine) == (first, second)
    assert members(engine) == (first, second, third)


def test_it_waits_as_long_as_it_is_not_admitted():
    """Before the next step is planned, after that, and no more in the step that it is in."""
    engine, _ = busy()
    engine.add(Sequence(10, 9))
    counts = [engine.queued]
    for _ in range(2):
        members(engine)
        counts.append(engine.queued)
    assert counts == [1, 1, 0]


def test_who_is_preempted_goes_before_who_arrived():
    """4 blocks of 16: two of 30 tokens fill them in 3 steps; in the 4th the younger must go."""
    engine: AsyncScheduler[Sequence] = AsyncScheduler(Limits(8, 100, 4, 16))
    old, young, late = Sequence(30, 9), Sequence(30, 9), Sequence(10, 9)
    engine.add(old)
    engine.add(young)
    for _ in range(3):
        assert members(engine) == (old, young)
    engine.add(late)
    batch = engine.schedule()
    assert batch is not None
    assert (batch.sequences, batch.preempted) == ((old,), (young,))
    assert list(engine.waiting) == [young, late]


def test_who_is_gone_before_it_is_planned_for_is_forgotten():
    """It is in no step, it is done, and a second one keeps its place."""
    engine, first = busy()
    gone, other = Sequence(10, 9), Sequence(10, 9)
    engine.add(gone)
    engine.add(other)
    engine.abort(gone)
    assert (gone.state, engine.queued) == (State.DONE, 1)
    members(engine)
    assert members(engine) == (first, other)


def test_what_never_fits_is_refused_when_it_arrives():
    """4 blocks of 16 are 64 tokens: 60 + 5 are refused though a step runs, and leave no trace."""
    engine, _ = busy(blocks=4)
    with pytest.raises(ValueError, match=r"60 \+ 5 tokens never fit into a KV cache of 64"):
        engine.add(Sequence(60, 5))
    assert engine.queued == 0


def test_an_engine_that_ran_empty_is_idle_again():
    """Whoever comes then is in the very next step."""
    engine, first = busy()
    engine.abort(first)
    assert engine.schedule() is None
    late = Sequence(10, 1)
    engine.add(late)
    assert members(engine) == (late,)
