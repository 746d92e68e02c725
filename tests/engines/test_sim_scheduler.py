"""The scheduler in virtual time: literal token and block counts, no clock."""

from __future__ import annotations

import pytest

from pytest_llmperf.engines.sim.scheduler import Limits, Scheduler, Sequence, State


def scheduler(
    seqs: int = 8, batched: int = 100, blocks: int = 100, size: int = 16
) -> Scheduler[Sequence]:
    return Scheduler(Limits(seqs, batched, blocks, size))


def step(engine: Scheduler[Sequence]) -> tuple[Sequence, ...]:
    """Plan a step and finish it; return who got a token."""
    batch = engine.schedule()
    assert batch is not None
    return engine.complete(batch)


def test_the_first_token_comes_with_the_step_that_ends_the_prefill():
    """A prompt of 250 tokens and a budget of 100 a step: 100, 100, 50, and then a token."""
    engine = scheduler(batched=100)
    sequence = Sequence(prompt_tokens=250, max_tokens=2)
    engine.add(sequence)
    chunks = []
    for _ in range(3):
        batch = engine.schedule()
        assert batch is not None
        chunks.append((batch.prefill_tokens, len(batch.sampling)))
        engine.complete(batch)
    assert chunks == [(100, 0), (100, 0), (50, 1)]
    assert sequence.generated == 1


def test_a_decode_computes_one_token_and_is_no_prefill():
    """After the prefill each step computes the token that was sampled before."""
    engine = scheduler()
    engine.add(Sequence(prompt_tokens=10, max_tokens=3))
    step(engine)
    batch = engine.schedule()
    assert batch is not None
    assert (batch.tokens, batch.prefill_tokens) == ((1,), 0)


def test_sequences_share_steps():
    """Two sequences of 5 tokens take 5 steps together, not 10."""
    engine = scheduler()
    first, second = Sequence(10, 5), Sequence(20, 5)
    engine.add(first)
    engine.add(second)
    given = [step(engine) for _ in range(5)]
    assert given == [(first, second)] * 5
    assert engine.schedule() is None


def test_a_decode_goes_before_a_prefill_in_the_budget():
    """A running sequence keeps its token a step while a long prompt takes the rest."""
    engine = scheduler(batched=100)
    engine.add(Sequence(10, 5))
    step(engine)
    engine.add(Sequence(500, 1))
    batch = engine.schedule()
    assert batch is not None
    assert (batch.tokens, batch.prefill_tokens) == ((1, 99), 99)


def test_no_more_than_max_num_seqs_run():
    """The third waits until one of two is done."""
    engine = scheduler(seqs=2)
    for tokens in (1, 2, 1):
        engine.add(Sequence(10, tokens))
    step(engine)
    assert (len(engine.running), len(engine.waiting)) == (1, 1)
    batch = engine.schedule()
    assert batch is not None
    assert (len(batch.admitted), len(engine.running), len(engine.waiting)) == (1, 2, 0)


def test_a_sequence_waits_until_its_prompt_fits_into_the_kv_cache():
    """4 blocks of 16: 33 tokens hold 3, so 20 tokens (2 blocks) wait though a seat is free."""
    engine = scheduler(blocks=4)
    engine.add(Sequence(33, 2))
    engine.add(Sequence(20, 1))
    step(engine)
    assert (len(engine.running), len(engine.waiting), engine.kv_usage) == (1, 1, 0.75)
    step(engine)
    assert len(engine.running) == 0
    step(engine)
    assert (len(engine.waiting), engine.kv_usage) == (0, 0.0)


def test_the_youngest_is_preempted_and_computed_again():
    """4 blocks, two prompts of 2 blocks each: the older's 33rd token takes the younger's."""
    engine = scheduler(blocks=4)
    older, younger = Sequence(32, 4), Sequence(31, 4)
    engine.add(older)
    engine.add(younger)
    assert step(engine) == (older, younger)
    batch = engine.schedule()
    assert batch is not None
    assert (batch.sequences, batch.preempted) == ((older,), (younger,))
    assert (younger.state, younger.computed, younger.blocks) == (State.WAITING, 0, 0)
    engine.complete(batch)
    assert [step(engine) for _ in range(2)] == [(older,), (older,)]
    batch = engine.schedule()
    assert batch is not None
    # 31 tokens of the prompt and the one that it had: all are computed anew.
    assert (batch.sequences, batch.prefill_tokens) == ((younger,), 32)
    engine.complete(batch)
    assert (younger.generated, older.state) == (2, State.DONE)


def test_every_block_comes_back():
    """Preempted, aborted and finished sequences leave an empty cache behind."""
    engine = scheduler(blocks=8)
    sequences = [Sequence(30, 20), Sequence(30, 20), Sequence(30, 20), Sequence(30, 20)]
    for sequence in sequences:
        engine.add(sequence)
    step(engine)
    engine.abort(sequences[0])
    for _ in range(200):
        batch = engine.schedule()
        if batch is None:
            break
        engine.complete(batch)
    assert (engine.free_blocks, engine.running, len(engine.waiting)) == (8, [], 0)
    assert [sequence.generated for sequence in sequences] == [1, 20, 20, 20]


def test_a_step_under_way_goes_on_without_an_aborted_sequence():
    """Its token is given to nobody, its blocks are free at once."""
    engine = scheduler()
    gone, stays = Sequence(10, 5), Sequence(10, 5)
    engine.add(gone)
    engine.add(stays)
    batch = engine.schedule()
    assert batch is not None
    engine.abort(gone)
    assert engine.complete(batch) == (stays,)
    assert (engine.running, engine.free_blocks) == ([stays], 99)


def test_a_waiting_sequence_can_be_aborted():
    """It leaves the queue."""
    engine = scheduler(seqs=1)
    first, second = Sequence(10, 2), Sequence(10, 2)
    engine.add(first)
    engine.add(second)
    step(engine)
    engine.abort(second)
    assert len(engine.waiting) == 0


def test_what_could_never_fit_is_refused():
    """It would wait for ever, and everything behind it too."""
    engine = scheduler(blocks=4)
    with pytest.raises(ValueError, match="never fit into a KV cache of 64"):
        engine.add(Sequence(40, 25))
