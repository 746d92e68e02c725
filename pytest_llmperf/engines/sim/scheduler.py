"""Continuous batching with chunked prefill over a paged KV cache, as vLLM's V1 scheduler does it.

No clock and no I/O: a step is planned (``schedule``), takes whatever time the step-time model
says, and is taken over (``complete``). There is no prefill and no decode phase: each sequence
has a number of tokens that are known and a number whose keys and values are computed, a step
lets the second catch up with the first, and a sequence that has caught up samples a token. Drafts
are tokens beyond the known ones; those that are accepted become known, the others are forgotten.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pytest_llmperf.engines.sim.kv_cache import KvCache

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_llmperf.engines.sim.prefix import BlockHash, Chain


class State(Enum):
    """Where a sequence is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


@dataclass(slots=True, eq=False)
class Sequence:
    """A request as the scheduler sees it: token counts, and the KV blocks that it holds.

    ``computed`` is the number of tokens whose KV is there, found in the cache or computed;
    while a step runs, before that step. ``cached_tokens``: those of the prompt found in the cache
    at the first admission; None before it. Without a ``chain`` it has no part in prefix reuse.
    ``blocks``, ``cached_blocks`` and ``hashed_blocks`` are the KV cache's (``Holder``). What is
    drawn for it follows from ``seed``.
    """

    prompt_tokens: int
    max_tokens: int
    computed: int = 0
    generated: int = 0
    blocks: int = 0
    state: State = State.WAITING
    chain: Chain | None = None
    cached_blocks: list[BlockHash] = field(default_factory=list)
    hashed_blocks: int = 0
    cached_tokens: int | None = None
    seed: int = 0

    @property
    def known(self) -> int:
        """Tokens that exist: all of them must be computed before the next one is sampled."""
        return self.prompt_tokens + self.generated


S = TypeVar("S", bound=Sequence)
S_contra = TypeVar("S_contra", bound=Sequence, contravariant=True)


class Drafts(Protocol[S_contra]):
    """Proposes tokens. ``lookahead``: KV slots beyond them that the drafter itself writes."""

    @property
    def lookahead(self) -> int:
        """KV slots that a sequence needs beyond the tokens of its step."""

    def propose(self, sequence: S_contra) -> int:
        """Return how many drafts follow the sequence's last known token."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a step, under the names of vLLM's arguments. ``kv_blocks`` of ``block_size``.

    ``max_model_len`` None: drafts are bounded by the KV cache alone.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    kv_blocks: int
    block_size: int = 16
    max_model_len: int | None = None

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        return self.kv_blocks * self.block_size

    @property
    def longest(self) -> int:
        """Tokens that a sequence can have, drafts included."""
        return min(self.max_model_len or self.kv_tokens, self.kv_tokens)


@dataclass(frozen=True, slots=True)
class Batch(Generic[S]):
    """One step's work.

    ``tokens`` are those that each of ``sequences`` computes in it. ``sampling`` are the sequences
    that have a new token at its end, ``prefill_tokens`` those computed beyond a decode's own and
    its drafts, ``preempted`` who lost its KV blocks to let it run and ``admitted`` who left the
    queue for it. ``drafted``: the drafts that each of ``sampling`` verifies.
    """

    sequences: tuple[S, ...]
    tokens: tuple[int, ...]
    sampling: tuple[S, ...]
    prefill_tokens: int
    preempted: tuple[S, ...]
    admitted: tuple[S, ...]
    drafted: tuple[int, ...] = ()


class Scheduler(Generic[S]):
    """First come, first served; the youngest is preempted, and recomputed later.

    Without ``chunked_prefill`` a prompt is computed in one step or waits. ``prefix_caching``:
    blocks are found again by what is in them.
    """

    def __init__(
        self, limits: Limits, *, prefix_caching: bool = True, chunked_prefill: bool = True
    ) -> None:
        self.limits = limits
        self.waiting: deque[S] = deque()
        self.running: list[S] = []
        self._cache = KvCache(limits.kv_blocks, limits.block_size, prefix_caching=prefix_caching)
        self._chunked_prefill = chunked_prefill

    @property
    def free_blocks(self) -> int:
        """KV blocks that no sequence holds."""
        return self._cache.free

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks that are held, 0 to 1. What is only cached is free."""
        return 1.0 - self._cache.free / self.limits.kv_blocks

    @property
    def queued(self) -> int:
        """Sequences that wait for their admission."""
        return len(self.waiting)

    def add(self, sequence: S) -> None:
        """Queue a sequence. Raise ValueError for one that could never fit, which would hang."""
        most = sequence.prompt_tokens + sequence.max_tokens
        if most > self.limits.kv_tokens:
            raise ValueError(
                f"{sequence.prompt_tokens} + {sequence.max_tokens} tokens never fit into a KV "
                f"cache of {self.limits.kv_tokens}"
            )
        if not self._chunked_prefill and most > self.limits.max_num_batched_tokens:
            raise ValueError(
                f"{sequence.prompt_tokens} + {sequence.max_tokens} tokens never fit into a step of "
                f"{self.limits.max_num_batched_tokens}, and prefills are not cut"
            )
        self.waiting.append(sequence)

    def abort(self, sequence: S) -> None:
        """Forget a sequence, wherever it is; a step under way goes on without its token."""
        if sequence.state is State.RUNNING:
            self.running.remove(sequence)
        elif sequence.state is State.WAITING:
            self.waiting.remove(sequence)
        self._release(sequence, State.DONE)

    def schedule(self, drafts: Drafts[S] | None = None) -> Batch[S] | None:
        """Plan the next step, or return None where there is nothing to do.

        Running sequences come first, in the order of their admission. Where one needs a block
        and none is free, the youngest is preempted, and then nobody is admitted. A waiting
        sequence is admitted when all of its known tokens fit into free blocks. ``drafts`` are
        asked for each sequence that decodes.
        """
        budget = self.limits.max_num_batched_tokens
        lookahead = drafts.lookahead if drafts else 0
        plan = _Plan[S]()
        index = 0
        while index < len(self.running) and budget:
            sequence = self.running[index]
            missing = sequence.known - sequence.computed
            decodes = missing == 1 and sequence.generated > 0
            drafted = self._drafted(sequence, drafts, budget) if drafts and decodes else 0
            count = min(missing + drafted, budget)
            if not self._grow(sequence, count, lookahead, plan.preempted):
                break
            plan.add(sequence, count, drafted, decodes=decodes)
            budget -= count
            index += 1
        if not plan.preempted:
            self._admit(budget, plan)
        return plan.batch() if plan.sequences else None

    def complete(self, batch: Batch[S], gained: Iterable[int] | None = None) -> tuple[S, ...]:
        """Take a finished step over and return who has new tokens; the finished have left.

        ``gained``: how many tokens each of ``batch.sampling`` gets, its own and the accepted
        drafts; None: one each. What exceeds ``max_tokens`` is lost.
        """
        for sequence, count in zip(batch.sequences, batch.tokens, strict=True):
            if sequence.state is State.RUNNING:
                sequence.computed += count
        gains = (1,) * len(batch.sampling) if gained is None else gained
        sampled: list[S] = []
        for sequence, drafted, gain in zip(batch.sampling, batch.drafted, gains, strict=True):
            if sequence.state is not State.RUNNING:
                continue
            sampled.append(sequence)
            sequence.computed -= drafted + 1 - gain
            sequence.generated = min(sequence.generated + gain, sequence.max_tokens)
            if sequence.generated == sequence.max_tokens:
                self.running.remove(sequence)
                self._release(sequence, State.DONE)
        return tuple(sampled)

    def _drafted(self, sequence: S, drafts: Drafts[S], budget: int) -> int:
        """Return the drafts to verify: as in vLLM, the context and the budget bound them."""
        room = self.limits.longest - sequence.known - 1
        return max(0, min(drafts.propose(sequence), budget - 1, room))

    def _admit(self, budget: int, plan: _Plan[S]) -> None:
        while self.waiting and budget and len(self.running) < self.limits.max_num_seqs:
            sequence = self.waiting[0]
            known = sequence.known
            hits = self._cache.hits(sequence, known)
            found = len(hits) * self.limits.block_size
            count = min(known - found, budget)
            if found + count < known and not self._chunked_prefill:
                break
            if not self._cache.admit(sequence, hits, known):
                break
            self.running.append(self.waiting.popleft())
            sequence.state = State.RUNNING
            sequence.computed = found
            if sequence.cached_tokens is None:
                sequence.cached_tokens = found
            self._cache.publish(sequence, found + count)
            plan.admitted.append(sequence)
            plan.add(sequence, count, 0, decodes=False)
            budget -= count

    def _grow(self, sequence: S, count: int, lookahead: int, preempted: list[S]) -> bool:
        """Give ``sequence`` blocks for ``count`` tokens; False where it was preempted itself.

        Blocks that become full with known tokens can be found at once, as in vLLM: who is admitted
        to the same step shares them.
        """
        tokens = sequence.computed + count
        slots = min(tokens + lookahead, max(tokens, self.limits.longest))
        while not self._cache.grow(sequence, slots):
            victim = self.running.pop()
            self._release(victim, State.WAITING)
            self.waiting.appendleft(victim)
            preempted.append(victim)
            if victim is sequence:
                return False
        self._cache.publish(sequence, min(tokens, sequence.known))
        return True

    def _release(self, sequence: S, state: State) -> None:
        self._cache.release(sequence)
        sequence.computed = 0
        sequence.state = state


class _Plan(Generic[S]):
    """A step as it is being planned."""

    def __init__(self) -> None:
        self.sequences: list[S] = []
        self.tokens: list[int] = []
        self.sampling: list[S] = []
        self.drafted: list[int] = []
        self.preempted: list[S] = []
        self.admitted: list[S] = []
        self.prefill_tokens = 0

    def add(self, sequence: S, count: int, drafted: int, *, decodes: bool) -> None:
        """Let ``sequence`` compute ``count`` tokens, of them ``drafted`` drafts."""
        self.sequences.append(sequence)
        self.tokens.append(count)
        if not decodes:
            self.prefill_tokens += count
        if sequence.computed + count - drafted == sequence.known:
            self.sampling.append(sequence)
            self.drafted.append(drafted)

    def batch(self) -> Batch[S]:
        """Return the planned step."""
        return Batch(
            tuple(self.sequences),
            tuple(self.tokens),
            tuple(self.sampling),
            self.prefill_tokens,
            tuple(self.preempted),
            tuple(self.admitted),
            tuple(self.drafted),
        )
