"""Which drafts a step verifies and which of them are accepted.

Drawn, but not from one stream of numbers: a draw follows from the sequence's seed and the position
in its answer. A draft is right or wrong there as it is with a greedy model, whatever else runs,
however often the traffic is replayed; two launches differ in time, not in what was accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_llmperf.engines.sim.speculation import NGRAM
from pytest_llmperf.engines.sim.tokens import mix

if TYPE_CHECKING:
    from pytest_llmperf.engines.sim.scheduler import Sequence

FOUND = 0.5
"""Chance that a lookup finds the last tokens again: n-grams draft only where they occurred before.

An assumption, as a rate that nobody gave is one."""
BITS = 2**64
ACCEPTING, LOOKING_UP = 0x5DEECE66D, 0xB5026F5AA
"""Two streams of draws, so that one does not follow from the other."""


class Asked(Protocol):
    """What ``--speculative-config`` asks for."""

    @property
    def method(self) -> str:
        """How drafts are made: ``ngram`` looks them up, every other method computes them."""

    @property
    def tokens(self) -> int:
        """Drafts a step and sequence."""

    @property
    def rate(self) -> float:
        """Chance that a draft is accepted, given that all before it were."""


class Drafting:
    """Proposes and accepts drafts. ``found``: how often a lookup has something to propose.

    ``lookahead`` are the KV slots that a drafter writes beyond the verified tokens, which vLLM
    reserves; a lookup has no KV of its own.
    """

    def __init__(self, asked: Asked, seed: int = 0, found: float = FOUND) -> None:
        if not 0.0 <= asked.rate <= 1.0:
            raise ValueError(f"a rate of acceptance is from 0 to 1, got {asked.rate:g}")
        self.tokens = asked.tokens
        self._lookup = asked.method == NGRAM
        self.lookahead = 0 if self._lookup else asked.tokens
        self._accepting = mix(seed, ACCEPTING)
        self._looking_up = mix(seed, LOOKING_UP)
        self._right_below = int(asked.rate * BITS)
        self._found_below = int(found * BITS)

    def propose(self, sequence: Sequence) -> int:
        """Return how many drafts follow the sequence's last known token."""
        if not self._lookup:
            return self.tokens
        draw = mix(sequence.seed ^ self._looking_up, sequence.generated)
        return self.tokens if draw < self._found_below else 0

    def accepted(self, sequence: Sequence, drafted: int) -> int:
        """Return how many of ``drafted`` are right: those before the first that is wrong."""
        seed, position = sequence.seed ^ self._accepting, sequence.generated
        for index in range(drafted):
            if mix(seed, position + index) >= self._right_below:
                return index
        return drafted
