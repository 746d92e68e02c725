"""Prefix reuse: hashes that are chained, and blocks that stay until they are needed."""

from __future__ import annotations

from pytest_llmperf.engines.sim.prefix import BlockPool, Chain
from pytest_llmperf.engines.sim.scheduler import Limits, Scheduler, Sequence, State
from pytest_llmperf.engines.sim.tokens import Script, pack

SIZE = 16


def chain(prompt: range, salt: str | None = None, seed: int = 1) -> Chain:
    return Chain(pack(prompt), SIZE, salt, Script(seed))


def request(prompt: range, tokens: int = 1, salt: str | None = None) -> Sequence:
    return Sequence(len(prompt), tokens, chain=chain(prompt, salt))


def scheduler(
    blocks: int = 100, batched: int = 1000, *, caching: bool = True
) -> Scheduler[Sequence]:
    return Scheduler(Limits(8, batched, blocks, SIZE), prefix_caching=caching)


def run(engine: Scheduler[Sequence], *sequences: Sequence) -> None:
    """Queue the sequences and let the engine work until there is nothing to do."""
    for sequence in sequences:
        engine.add(sequence)
    while (batch := engine.schedule()) is not None:
        engine.complete(batch)


def test_a_block_is_known_by_all_tokens_up_to_its_end():
    """The second block has the same tokens in both; what comes before it differs."""
    one, other = chain(range(48)), Chain(pack([9, *range(1, 48)]), SIZE, None, Script(1))
    assert len(one.hashes) == 3
    assert not set(one.hashes) & set(other.hashes)
    assert chain(range(40)).hashes == one.hashes[:2]


def test_hashes_are_the_same_in_every_process():
    """SHA-256 of the salt's digest, then of four bytes a token: never Python's own hash."""
    assert chain(range(16)).hashes[0].hex().startswith("5d85718e")
    assert chain(range(16), salt="a").hashes[0].hex().startswith("d2209be7")


def test_a_salt_shares_nothing_with_another():
    """Each replay has its own ``cache_salt``."""
    salts = [chain(range(16), salt).hashes[0] for salt in (None, "", "a", "b")]
    assert len(set(salts)) == 4


def test_an_answers_blocks_are_hashed_with_its_tokens():
    """A prompt of 20: the second block is full with 12 tokens of the answer, and not before."""
    asked, said = chain(range(20)), Script(1)
    assert len(asked.hashes) == 1
    whole = Chain(pack([*range(20), *said.ids(0, 28)]), SIZE, None, Script(2))
    assert asked.upto(3) == whole.hashes


def test_a_prompt_is_found_again_except_its_last_token():
    """48 tokens are 3 full blocks: 2 are found, the third is computed to sample from it."""
    engine, again = scheduler(), request(range(48))
    run(engine, request(range(48)))
    engine.add(again)
    batch = engine.schedule()
    assert batch is not None
    assert (again.computed, again.cached_tokens) == (32, 32)
    assert (batch.tokens, batch.prefill_tokens) == ((16,), 16)


def test_a_begun_block_is_not_shared():
    """50 and 60 tokens that begin alike share 3 blocks, 48 tokens."""
    engine, longer = scheduler(), request(range(60))
    run(engine, request(range(50)))
    run(engine, longer)
    assert longer.cached_tokens == 48


def test_who_is_admitted_to_the_same_step_shares_its_blocks():
    """As in vLLM: two prompts of 49 tokens compute 49 + 1, and hold 3 + 1 + 1 blocks together."""
    engine = scheduler()
    for _ in range(2):
        engine.add(request(range(49), tokens=5))
    batch = engine.schedule()
    assert batch is not None
    assert (batch.tokens, engine.free_blocks) == ((49, 1), 95)


def test_a_shared_block_stays_held_until_its_last_holder_is_gone():
    """3 shared blocks and one each: 95 free, then 96, then all."""
    engine = scheduler()
    first, second = request(range(49), tokens=5), request(range(49), tokens=5)
    engine.add(first)
    engine.add(second)
    engine.schedule()
    free = [engine.free_blocks]
    for sequence in (first, second):
        engine.abort(sequence)
        free.append(engine.free_blocks)
    assert free == [95, 96, 100]


def test_an_answer_is_found_by_the_next_turn():
    """16 + 17 tokens are known at the end; 32 have KV: 2 blocks, the next turn finds both."""
    said = Script(1)
    engine, turn = scheduler(), request(range(16), tokens=17)
    run(engine, turn)
    words = pack([*range(16), *said.ids(0, 17), *range(500, 520)])
    following = Sequence(16 + 17 + 20, 1, chain=Chain(words, SIZE, None, Script(2)))
    run(engine, following)
    assert following.cached_tokens == 32


def test_the_oldest_and_of_a_prompt_its_end_is_forgotten_first():
    """8 blocks: two prompts of 3 blocks leave 2 plain ones; one of 4 blocks takes 2 of the first.

    Of the first only the first block is left, of the second all three.
    """
    engine = scheduler(blocks=8)
    run(engine, request(range(48)), request(range(1000, 1048)))
    run(engine, request(range(2000, 2063)))
    found = []
    for start in (1000, 0):
        again = request(range(start, start + 49))
        engine.add(again)
        engine.schedule()
        found.append(again.cached_tokens)
        engine.abort(again)
    assert found == [48, 16]


def test_what_was_used_lately_is_kept():
    """The first prompt is asked for again before a third needs room: the second is forgotten."""
    engine = scheduler(blocks=6)
    run(engine, request(range(32)), request(range(1000, 1032)))
    run(engine, request(range(32)))
    run(engine, request(range(2000, 2063)))
    kept, gone = request(range(33)), request(range(1000, 1033))
    run(engine, kept)
    run(engine, gone)
    assert (kept.cached_tokens, gone.cached_tokens) == (32, 0)


def test_cached_blocks_are_free_and_nobody_waits_for_them():
    """A prompt that needs all 4 blocks is admitted at once, whatever was cached in them."""
    engine, large = scheduler(blocks=4), request(range(500, 563))
    run(engine, request(range(48)))
    assert (engine.free_blocks, engine.kv_usage) == (4, 0.0)
    run(engine, large)
    assert (large.state, large.cached_tokens) == (State.DONE, 0)


def test_idle_hits_need_room_too():
    """3 of 4 blocks are cached and idle; held ones of another leave 2: 49 tokens do not fit."""
    engine = scheduler(blocks=6)
    run(engine, request(range(48)))
    engine.add(request(range(1000, 1033), tokens=2))
    engine.schedule()
    engine.add(request(range(49)))
    batch = engine.schedule()
    assert batch is not None
    assert (len(batch.admitted), engine.free_blocks) == (0, 3)


def test_who_was_preempted_finds_its_own_blocks():
    """4 blocks: the younger loses 2; the older ends soon and the younger computes 2 tokens only."""
    engine = scheduler(blocks=4)
    older, younger = request(range(32), tokens=2), request(range(1000, 1031), tokens=4)
    engine.add(older)
    engine.add(younger)
    for _ in range(2):
        batch = engine.schedule()
        assert batch is not None
        engine.complete(batch)
    assert (older.state, younger.state) == (State.DONE, State.WAITING)
    batch = engine.schedule()
    assert batch is not None
    # 31 + 1 tokens are known; the first block is found, the second holds the last token.
    assert (batch.tokens, younger.computed) == ((16,), 16)
    assert younger.cached_tokens == 0  # what its prompt found when it first ran


def test_switched_off_nothing_is_found():
    """``--no-enable-prefix-caching``."""
    engine, again = scheduler(caching=False), request(range(48))
    run(engine, request(range(48)))
    run(engine, again)
    assert (again.cached_tokens, engine.free_blocks) == (0, 100)


def test_every_block_comes_back_whatever_was_shared():
    """30 requests with 3 beginnings in a cache that is too small for them: all blocks are free."""
    engine = scheduler(blocks=12, batched=40)
    prompts = [range(1000 * (n % 3), 1000 * (n % 3) + 20 + n) for n in range(30)]
    sequences = [request(prompt, tokens=30) for prompt in prompts]
    run(engine, *sequences)
    assert [sequence.generated for sequence in sequences] == [30] * 30
    assert (engine.free_blocks, engine.running, len(engine.waiting)) == (12, [], 0)


def test_of_two_blocks_with_the_same_contents_one_is_found():
    """The second stays plain while the first is held, and goes first when blocks are needed."""
    pool = BlockPool(3)
    pool.take(2)
    assert [pool.cache(b"same"), pool.cache(b"same")] == [True, False]
    pool.release([b"same"], 1)
    pool.take(2)
    assert (pool.found([b"same"]), pool.free) == (1, 1)
    pool.take(1)
    assert (pool.found([b"same"]), pool.free) == (0, 0)


def test_a_block_that_is_computed_again_takes_the_place_of_the_idle_one():
    """It was used last: another one is forgotten before it."""
    pool = BlockPool(3)
    for name in (b"same", b"other"):
        pool.take(1)
        pool.cache(name)
        pool.release([name], 0)
    pool.take(1)
    assert (pool.cache(b"same"), pool.free) == (True, 2)
    pool.release([b"same"], 0)
    pool.take(2)
    assert (pool.found([b"same"]), pool.found([b"other"])) == (1, 0)
