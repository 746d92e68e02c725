"""Continuous batching with chunked prefill over a paged KV cache, as vLLM's V1 scheduler does it.

No clock and no I/O: a step is planned (``schedule``), takes whatever time the step-time model
says, and is taken over (``complete``). There is no prefill and no decode phase: each sequence
has a number of tokens that are known and a number whose keys and values are computed, a step
lets the second catch up with the first, and a sequence that has caught up samples a token.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar


class State(Enum):
    """Where a sequence is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


@dataclass(slots=True, eq=False)
class Sequence:
    """A request as the scheduler sees it: token counts, and the KV blocks that it holds."""

    prompt_tokens: int
    max_tokens: int
    computed: int = 0
    generated: int = 0
    blocks: int = 0
    state: State = State.WAITING

    @property
    def known(self) -> int:
        """Tokens that exist: all of them must be computed before the next one is sampled."""
        return self.prompt_tokens + self.generated


S = TypeVar("S", bound=Sequence)


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a step, under the names of vLLM's arguments. ``kv_blocks`` of ``block_size``."""

    max_num_seqs: int
    max_num_batched_tokens: int
    kv_blocks: int
    block_size: int = 16

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        return self.kv_blocks * self.block_size


@dataclass(frozen=True, slots=True)
class Batch(Generic[S]):
    """One step's work.

    ``sampling`` are the sequences that have a new token at its end, ``prefill_tokens`` those
    computed beyond the one of a decode, ``preempted`` who lost its KV blocks to let it run and
    ``admitted`` who left the queue for it.
    """

    sequences: tuple[S, ...]
    tokens: tuple[int, ...]
    sampling: tuple[S, ...]
    prefill_tokens: int
    preempted: tuple[S, ...]
    admitted: tuple[S, ...]


class Scheduler(Generic[S]):
    """First come, first served; the youngest is preempted, and recomputed later."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting: deque[S] = deque()
        self.running: list[S] = []
        self.free_blocks = limits.kv_blocks

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks that are held, 0 to 1."""
        return 1.0 - self.free_blocks / self.limits.kv_blocks

    def add(self, sequence: S) -> None:
        """Queue a sequence. Raise ValueError for one that could never fit, which would hang."""
        if sequence.prompt_tokens + sequence.max_tokens > self.limits.kv_tokens:
            raise ValueError(
                f"{sequence.prompt_tokens} + {sequence.max_tokens} tokens never fit into a KV "
                f"cache of {self.limits.kv_tokens}"
            )
        self.waiting.append(sequence)

    def abort(self, sequence: S) -> None:
        """Forget a sequence, wherever it is; a step under way goes on without its token."""
        if sequence.state is State.RUNNING:
            self.running.remove(sequence)
        elif sequence.state is State.WAITING:
            self.waiting.remove(sequence)
        self._release(sequence, State.DONE)

    def schedule(self) -> Batch[S] | None:
        """Plan the next step, or return None where there is nothing to do.

        Running sequences come first, in the order of their admission. Where one needs a block
        and none is free, the youngest is preempted, and then nobody is admitted. A waiting
        sequence is admitted when all of its known tokens fit into free blocks.
        """
        budget = self.limits.max_num_batched_tokens
        sequences: list[S] = []
        tokens: list[int] = []
        preempted: list[S] = []
        index = 0
        while index < len(self.running) and budget:
            sequence = self.running[index]
            count = min(sequence.known - sequence.computed, budget)
            if not self._grow(sequence, sequence.computed + count, preempted):
                break
            sequences.append(sequence)
            tokens.append(count)
            budget -= count
            index += 1
        admitted = [] if preempted else self._admit(budget, tokens)
        sequences += admitted
        if not sequences:
            return None
        return self._batch(sequences, tokens, preempted, admitted)

    def complete(self, batch: Batch[S]) -> tuple[S, ...]:
        """Take a finished step over and return who has a new token; the finished have left."""
        for sequence, count in zip(batch.sequences, batch.tokens, strict=True):
            if sequence.state is State.RUNNING:
                sequence.computed += count
        sampled = tuple(seq for seq in batch.sampling if seq.state is State.RUNNING)
        for sequence in sampled:
            sequence.generated += 1
            if sequence.generated >= sequence.max_tokens:
                self.running.remove(sequence)
                self._release(sequence, State.DONE)
        return sampled

    def _batch(
        self, sequences: list[S], tokens: list[int], preempted: list[S], admitted: list[S]
    ) -> Batch[S]:
        pairs = list(zip(sequences, tokens, strict=True))
        decoding = sum(1 for seq, _ in pairs if seq.generated and seq.computed == seq.known - 1)
        return Batch(
            tuple(sequences),
            tuple(tokens),
            tuple(seq for seq, count in pairs if seq.computed + count == seq.known),
            sum(tokens) - decoding,
            tuple(preempted),
            tuple(admitted),
        )

    def _admit(self, budget: int, tokens: list[int]) -> list[S]:
        admitted: list[S] = []
        while self.waiting and budget and len(self.running) < self.limits.max_num_seqs:
            sequence = self.waiting[0]
            blocks = self._blocks(sequence.known)
            if blocks > self.free_blocks:
                break
            self.waiting.popleft()
            self.free_blocks -= blocks
            sequence.blocks = blocks
            sequence.state = State.RUNNING
            self.running.append(sequence)
            count = min(sequence.known, budget)
            admitted.append(sequence)
            tokens.append(count)
            budget -= count
        return admitted

    def _grow(self, sequence: S, tokens: int, preempted: list[S]) -> bool:
        """Give ``sequence`` blocks for ``tokens``; False where it had to be preempted itself."""
        need = self._blocks(tokens) - sequence.blocks
        while need > self.free_blocks:
            victim = self.running.pop()
            self._release(victim, State.WAITING)
            self.waiting.appendleft(victim)
            preempted.append(victim)
            if victim is sequence:
                return False
        if need > 0:
            self.free_blocks -= need
            sequence.blocks += need
        return True

    def _release(self, sequence: S, state: State) -> None:
        self.free_blocks += sequence.blocks
        sequence.blocks = 0
        sequence.computed = 0
        sequence.state = state

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_size)
