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


class Drafts:
    """Proposes ``count`` drafts, always, and writes ``lookahead`` slots beyond them."""

    def __init__(self, count: int, lookahead: int = 0) -> None:
        self.count = count
        self.lookahead = lookahead

    def propose(self, sequence: Sequence) -> int:
        """Return the same number for every sequence."""
        return self.count


def test_a_decode_verifies_its_drafts_in_one_step():
    """A prefill of 10 has none; then 1 + 4 tokens, which are no prefill."""
    engine, drafts = scheduler(), Drafts(4)
    engine.add(Sequence(10, 20))
    prefill = engine.schedule(drafts)
    assert prefill is not None
    assert (prefill.tokens, prefill.drafted, prefill.prefill_tokens) == ((10,), (0,), 10)
    engine.complete(prefill)
    decode = engine.schedule(drafts)
    assert decode is not None
    assert (decode.tokens, decode.drafted, decode.prefill_tokens) == ((5,), (4,), 0)


def test_accepted_drafts_are_known_and_the_others_computed_in_vain():
    """Known 11, computed 10. With 2 of 4 drafts right it gains 3: known 14, computed 13."""
    engine, drafts, sequence = scheduler(), Drafts(4), Sequence(10, 20)
    engine.add(sequence)
    step(engine)
    batch = engine.schedule(drafts)
    assert batch is not None
    assert engine.complete(batch, (3,)) == (sequence,)
    assert (sequence.generated, sequence.known, sequence.computed) == (4, 14, 13)


def test_what_was_accepted_beyond_the_limit_is_lost():
    """3 tokens asked for, 1 there, 5 gained: 3, and the sequence is done."""
    engine, drafts, sequence = scheduler(), Drafts(4), Sequence(10, 3)
    engine.add(sequence)
    step(engine)
    batch = engine.schedule(drafts)
    assert batch is not None
    engine.complete(batch, (5,))
    assert (sequence.generated, sequence.state, engine.free_blocks) == (3, State.DONE, 100)


def test_drafts_do_not_go_beyond_the_budget():
    """8 tokens a step: the first decode takes 5, the second its own and 2 of its 4 drafts."""
    engine, drafts = scheduler(batched=8), Drafts(4)
    engine.add(Sequence(3, 20))
    engine.add(Sequence(3, 20))
    step(engine)
    batch = engine.schedule(drafts)
    assert batch is not None
    assert (batch.tokens, batch.drafted) == ((5, 3), (4, 2))


def test_drafts_do_not_go_beyond_the_context():
    """14 known of 16: vLLM verifies 14 - 1 + 1 + 1 tokens, so that one more can be sampled."""
    engine: Scheduler[Sequence] = Scheduler(Limits(8, 100, 100, 16, max_model_len=16))
    engine.add(Sequence(13, 3))
    step(engine)
    batch = engine.schedule(Drafts(4))
    assert batch is not None
    assert (batch.tokens, batch.drafted) == ((2,), (1,))


def test_drafts_need_kv_blocks():
    """12 known: 16 slots for 1 + 4 tokens, a block; a draft model's own 4 take the second."""
    held = []
    for lookahead in (0, 4):
        engine, drafts, sequence = scheduler(), Drafts(4, lookahead), Sequence(11, 20)
        engine.add(sequence)
        step(engine)
        engine.schedule(drafts)
        held.append(sequence.blocks)
    assert held == [1, 2]


def test_the_last_tokens_of_a_full_cache_are_decoded_without_room_for_drafts():
    """64 tokens of cache, all asked for: drafts and lookahead shrink, nobody is preempted."""
    engine, sequence = scheduler(blocks=4), Sequence(40, 24)
    engine.add(sequence)
    preempted = 0
    while (batch := engine.schedule(Drafts(4, 4))) is not None:
        preempted += len(batch.preempted)
        engine.complete(batch, (1,) * len(batch.sampling))
    assert (sequence.generated, preempted, engine.free_blocks) == (24, 0, 4)


def test_a_prefill_that_may_not_be_cut_waits_for_a_step_that_has_room():
    """60 of 100 tokens beside a decode; the next 60 wait, though 39 would fit."""
    engine: Scheduler[Sequence] = Scheduler(Limits(8, 100, 100), chunked_prefill=False)
    engine.add(Sequence(10, 5))
    step(engine)
    engine.add(Sequence(60, 2))
    engine.add(Sequence(60, 2))
    batches = []
    for _ in range(2):
        batch = engine.schedule()
        assert batch is not None
        batches.append(batch.tokens)
        engine.complete(batch)
    assert batches == [(1, 60), (1, 1, 60)]


def test_what_no_step_could_hold_is_refused_where_prefills_are_not_cut():
    """It would wait for ever: vLLM asks for max_num_batched_tokens of at least max_model_len."""
    engine: Scheduler[Sequence] = Scheduler(Limits(8, 100, 100), chunked_prefill=False)
    with pytest.raises(ValueError, match="never fit into a step of 100"):
        engine.add(Sequence(90, 11))
