"""The paged KV cache: which blocks a sequence holds, and which of them others may find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_llmperf.engines.sim.prefix import BlockHash, BlockPool, Chain

if TYPE_CHECKING:
    from collections.abc import Sequence as Items


class Holder(Protocol):
    """What the cache keeps about a sequence, in the sequence.

    ``blocks`` are all that it holds, ``cached_blocks`` the hashes of those that others may find,
    ``hashed_blocks`` how many of its full ones were offered to them.
    """

    blocks: int
    chain: Chain | None
    cached_blocks: list[BlockHash]
    hashed_blocks: int


class KvCache:
    """``blocks`` of ``block_size`` tokens, found again by what is in them where asked for."""

    def __init__(self, blocks: int, block_size: int, *, prefix_caching: bool) -> None:
        self.block_size = block_size
        self._pool = BlockPool(blocks)
        self._prefix_caching = prefix_caching

    @property
    def free(self) -> int:
        """Blocks that no sequence holds; those that are only cached are among them."""
        return self._pool.free

    def hits(self, holder: Holder, known: int) -> list[BlockHash]:
        """Return the hashes of the blocks that are there, from the first one on.

        The last of ``known`` tokens is in none: it has to be computed for the next to be sampled.
        """
        if holder.chain is None or not self._prefix_caching:
            return []
        most = (known - 1) // self.block_size
        hashes = holder.chain.upto(most)[:most]
        return hashes[: self._pool.found(hashes)]

    def admit(self, holder: Holder, hits: list[BlockHash], tokens: int) -> bool:
        """Give a sequence all blocks for ``tokens``, the ``hits`` among them; False: too few."""
        blocks = self._blocks(tokens)
        new = blocks - len(hits)
        if new + self._pool.idle(hits) > self._pool.free:
            return False
        self._pool.hold(hits)
        self._pool.take(new)
        holder.blocks = blocks
        holder.cached_blocks = hits
        holder.hashed_blocks = len(hits)
        return True

    def grow(self, holder: Holder, tokens: int) -> bool:
        """Give a sequence what it lacks for ``tokens``; False: so much is not free."""
        need = self._blocks(tokens) - holder.blocks
        if need > self._pool.free:
            return False
        if need > 0:
            self._pool.take(need)
            holder.blocks += need
        return True

    def publish(self, holder: Holder, tokens: int) -> None:
        """Let others find the blocks that are full with the first ``tokens``."""
        full = tokens // self.block_size
        if full <= holder.hashed_blocks or holder.chain is None or not self._prefix_caching:
            return
        new: Items[BlockHash] = holder.chain.upto(full)[holder.hashed_blocks : full]
        holder.cached_blocks += [block for block in new if self._pool.cache(block)]
        holder.hashed_blocks = full

    def release(self, holder: Holder) -> None:
        """Take all blocks back; what is in them can be found until they are needed."""
        self._pool.release(holder.cached_blocks, holder.blocks - len(holder.cached_blocks))
        holder.blocks = 0
        holder.cached_blocks = []
        holder.hashed_blocks = 0

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_size)
