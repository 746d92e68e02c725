"""Drafts: how many are proposed, and which are accepted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pytest_llmperf.engines.sim.drafting import Drafting
from pytest_llmperf.engines.sim.scheduler import Sequence
from pytest_llmperf.engines.sim.tokens import mix


@dataclass(frozen=True)
class Asked:
    """Speculation as ``--speculative-config`` asks for it."""

    tokens: int
    rate: float
    method: str = "draft_model"


def walk(drafting: Drafting, seed: int, tokens: int) -> list[int]:
    """Return how many drafts were accepted in each step of an answer."""
    sequence = Sequence(10, tokens, generated=1, seed=seed)
    accepted = []
    while sequence.generated < tokens:
        accepted.append(drafting.accepted(sequence, drafting.tokens))
        sequence.generated += accepted[-1] + 1
    return accepted


def test_the_chance_holds_at_every_position_given_those_before():
    """p = 0.7: 0.7, 0.49 and 0.343 of the steps accept 1, 2 and 3. Of 4,000: sd below 0.008."""
    drafting = Drafting(Asked(tokens=3, rate=0.7))
    accepted = [count for seed in range(20) for count in walk(drafting, mix(0, seed), 500)]
    shares = [sum(count > at for count in accepted) / len(accepted) for at in range(3)]
    assert len(accepted) > 3500
    assert shares == pytest.approx([0.7, 0.49, 0.343], abs=0.025)


def test_acceptance_belongs_to_the_answer_and_not_to_the_moment():
    """The same request accepts the same in another launch, whatever ran in between."""
    one, two = (Drafting(Asked(tokens=4, rate=0.5)) for _ in range(2))
    walk(two, 99, 300)
    assert walk(one, 5, 200) == walk(two, 5, 200)
    assert walk(one, 5, 200) != walk(one, 6, 200)
    assert walk(Drafting(Asked(tokens=4, rate=0.5), seed=1), 5, 200) != walk(one, 5, 200)


@pytest.mark.parametrize(("rate", "accepted"), [(0.0, 0), (1.0, 4)])
def test_the_ends_are_certain(rate: float, accepted: int):
    """A drafter that is never right, and one that always is."""
    drafting = Drafting(Asked(tokens=4, rate=rate))
    counts = {drafting.accepted(Sequence(10, 99, generated=at, seed=at), 4) for at in range(500)}
    assert counts == {accepted}


def test_a_model_always_drafts_and_a_lookup_only_where_it_finds():
    """0.25 of 4,000 lookups: 1,000, with a standard deviation of 27."""
    model = Drafting(Asked(tokens=4, rate=0.5))
    lookup = Drafting(Asked(tokens=4, rate=0.5, method="ngram"), found=0.25)
    sequences = [Sequence(10, 9999, generated=at, seed=12345) for at in range(4000)]
    assert {model.propose(sequence) for sequence in sequences} == {4}
    proposed = [lookup.propose(sequence) for sequence in sequences]
    assert set(proposed) == {0, 4}
    assert proposed.count(4) == pytest.approx(1000, abs=110)


def test_only_a_model_of_its_own_needs_room_for_its_kv():
    """vLLM reserves the drafts' slots once more for a draft model, none for a lookup."""
    model, lookup = Asked(4, 0.5), Asked(4, 0.5, "ngram")
    assert (Drafting(model).lookahead, Drafting(lookup).lookahead) == (4, 0)


def test_a_rate_is_a_share():
    """Above 1 it is refused with the value."""
    with pytest.raises(ValueError, match=r"from 0 to 1, got 1\.5"):
        Drafting(Asked(4, 1.5))
