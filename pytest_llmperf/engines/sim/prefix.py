"""Prefix reuse: hashes of full blocks, and the pool that finds blocks again by them.

As in vLLM V1 (core/block_pool.py): a block is known by everything up to its end, blocks that
nobody holds stay until they are needed, and those longest out of use go first. No clock, no I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from pytest_llmperf.engines.sim.tokens import BYTES_PER_TOKEN, pack

if TYPE_CHECKING:
    from collections.abc import Sequence as Items

BlockHash = bytes


class Generated(Protocol):
    """Knows the tokens that an answer has."""

    def ids(self, start: int, end: int) -> Items[int]:
        """Return the token ids from position ``start`` of the answer to before ``end``."""


class Chain:
    """The hashes of a sequence's full blocks, each over all tokens up to the block's end.

    ``packed`` is the prompt, four bytes a token, and is hashed here and once; blocks of the
    answer are hashed when they are full. Sequences with another ``salt`` share nothing.
    """

    def __init__(
        self, packed: bytes, block_size: int, salt: str | None, generated: Generated
    ) -> None:
        self.hashes: list[BlockHash] = []
        self._block_size = block_size
        self._generated = generated
        self._prompt_tokens = len(packed) // BYTES_PER_TOKEN
        self._hasher = sha256()
        if salt is not None:
            self._hasher.update(sha256(salt.encode()).digest())
        step = block_size * BYTES_PER_TOKEN
        full = len(packed) // step * step
        for start in range(0, full, step):
            self._hasher.update(packed[start : start + step])
            self.hashes.append(self._hasher.digest())
        self._rest = packed[full:]

    def upto(self, blocks: int) -> list[BlockHash]:
        """Return the hashes; at least the first ``blocks`` of them are there."""
        while len(self.hashes) < blocks:
            end = (len(self.hashes) + 1) * self._block_size
            start = max(end - self._block_size, self._prompt_tokens)
            ids = self._generated.ids(start - self._prompt_tokens, end - self._prompt_tokens)
            self._hasher.update(self._rest + pack(ids))
            self._rest = b""
            self.hashes.append(self._hasher.digest())
        return self.hashes


class BlockPool:
    """Which of ``blocks`` KV blocks are free, and what can be found in them.

    A block is plain, or cached under a hash. Plain blocks are all alike, and are taken before
    cached ones (vLLM puts them at the front of its queue); so they are counted, not listed. A
    second block with the contents of a cached one stays plain.
    """

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._plain = blocks
        self._held: dict[BlockHash, int] = {}
        self._idle: OrderedDict[BlockHash, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Blocks that nobody holds, cached ones included."""
        return self._plain + len(self._idle)

    def found(self, hashes: Items[BlockHash]) -> int:
        """Return how many of ``hashes``, from the first on without a gap, are cached."""
        count = 0
        for block in hashes:
            if block not in self._held and block not in self._idle:
                break
            count += 1
        return count

    def idle(self, hashes: Items[BlockHash]) -> int:
        """Return how many of ``hashes`` nobody holds: to hold them takes free blocks."""
        return sum(block in self._idle for block in hashes)

    def hold(self, hashes: Items[BlockHash]) -> None:
        """Hold cached blocks, together with who holds them already."""
        for block in hashes:
            if block in self._held:
                self._held[block] += 1
            else:
                del self._idle[block]
                self._held[block] = 1

    def take(self, count: int) -> None:
        """Take plain blocks; where there are too few, cached ones are forgotten for it."""
        self._plain -= count
        while self._plain < 0:
            self._idle.popitem(last=False)
            self._plain += 1

    def cache(self, block: BlockHash) -> bool:
        """Make a plain block that is held known by its hash; False where another one is."""
        if block in self._held:
            return False
        if block in self._idle:
            del self._idle[block]
            self._plain += 1
        self._held[block] = 1
        return True

    def release(self, hashes: Items[BlockHash], plain: int) -> None:
        """Let a sequence's blocks go, the last first: the end of a prompt is forgotten first."""
        self._plain += plain
        for block in reversed(hashes):
            holders = self._held.pop(block) - 1
            if holders:
                self._held[block] = holders
            else:
                self._idle[block] = None
