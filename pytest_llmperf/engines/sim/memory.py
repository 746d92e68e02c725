"""The memory budget of one simulated GPU: weights, KV cache and how many tokens it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmperf.engines.sim.gpus import GPUS
from pytest_llmperf.engines.sim.shapes import weights_of

if TYPE_CHECKING:
    from pytest_llmperf.engines.sim.gpus import Weights
    from pytest_llmperf.engines.sim.options import SimOptions
    from pytest_llmperf.engines.sim.shapes import ModelShape
    from pytest_llmperf.engines.sim.speculation import Speculation

GIB = 1 << 30
BITS: dict[Weights, float] = {"none": 16.0, "fp8": 8.0, "int8": 8.0, "int4": 4.37}
"""Bits a layer parameter. int4 with its scales, zeros and repacking: 9.62 GiB for the AWQ log."""
CONTEXT_GIB = 0.72
"""CUDA's context and libraries: what the H200's base log leaves beside weights, KV cache and the
activations of 8,192 tokens (1.83 GiB in all)."""
COLLECTIVES_GIB = 0.11
"""Buffers of the all-reduces: what two H200s took beyond their share of the activations."""
VERIFYING_COPIES = 5
"""Copies of every sequence's logits, in 32 bits, while drafts are verified: the H200's log with a
draft model has 2.97 GiB more overhead than the one without, for 1,024 sequences (2.90 GiB)."""
GRAPHS_GIB = 0.9
"""What captured CUDA graphs take; vLLM captures them after it has sized the cache, beside it."""
PROFILED_GRAPHS_GIB = 0.58
"""With speculation vLLM estimates the graphs beforehand and keeps that much free (same log)."""


class StartError(Exception):
    """The engine cannot start. The message is vLLM's."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Per GPU: ``weights_gib`` and ``kv_gib``; for the server: ``kv_tokens`` it can hold."""

    weights_gib: float
    kv_gib: float
    kv_blocks: int
    block_size: int
    max_model_len: int

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        return self.kv_blocks * self.block_size

    @property
    def max_concurrency(self) -> float:
        """Requests of the greatest length that fit at once."""
        return self.kv_tokens / self.max_model_len


def value_bytes(options: SimOptions) -> int:
    """Return the bytes of one value in the KV cache."""
    return 1 if "fp8" in options.kv_cache_dtype or options.kv_cache_dtype == "int8" else 2


def weights_gib(shape: ModelShape, options: SimOptions) -> float:
    """Return the GiB that one GPU's share of the weights takes, a draft model's with it."""
    stored = weights_of(options.model, options.quantization)
    bits = BITS[stored] * shape.layer_parameters + 16 * shape.embedding_parameters
    drafting = options.speculation
    if drafting is not None and drafting.draft is not None:
        bits += BITS[drafting.weights] * drafting.draft.layer_parameters
        bits += 16 * drafting.draft.embedding_parameters if drafting.own_embeddings else 0
    return bits / 8 / GIB / options.tensor_parallel_size


def overhead_gib(shape: ModelShape, options: SimOptions) -> float:
    """Return the GiB of one GPU that are neither weights nor KV cache.

    Activations are those of the largest step: the MLP's gate, up and product, of which each
    GPU has its share, and four hidden states, which each has whole; 2 bytes a value.
    """
    gpus = options.tensor_parallel_size
    a_token = 2 * (3 * shape.intermediate / gpus + 4 * shape.hidden)
    found = CONTEXT_GIB + options.max_num_batched_tokens * a_token / GIB
    if gpus > 1:
        found += COLLECTIVES_GIB
    if options.speculation is not None:
        logits = 4 * options.max_num_seqs * shape.vocabulary / GIB
        found += VERIFYING_COPIES * logits
        found += 0.0 if options.enforce_eager else PROFILED_GRAPHS_GIB
    return found


def token_bytes(shape: ModelShape, options: SimOptions) -> int:
    """Return the bytes of one GPU that a token's keys and values take, the draft's with them."""
    size, gpus = value_bytes(options), options.tensor_parallel_size
    drafting: Speculation | None = options.speculation
    draft = drafting.draft if drafting is not None else None
    own = shape.kv_bytes_per_token(size, gpus)
    return own + (draft.kv_bytes_per_token(size, gpus) if draft is not None else 0)


def plan_memory(shape: ModelShape, options: SimOptions) -> Budget:
    """Divide the GPU's memory as vLLM does; raise StartError where it does not suffice.

    A length that was not asked for is cut to what the KV cache holds; one that was is an error.
    """
    weights = weights_gib(shape, options)
    usable = GPUS[options.gpu].memory_gib * options.gpu_memory_utilization
    kv_gib = usable - weights - overhead_gib(shape, options)
    a_token = token_bytes(shape, options)
    block_bytes = a_token * options.block_size
    blocks = int(kv_gib * GIB / block_bytes)
    if options.num_gpu_blocks_override is not None:
        blocks = options.num_gpu_blocks_override
    if options.kv_tokens is not None:
        blocks = options.kv_tokens // options.block_size
        kv_gib = blocks * block_bytes / GIB
    if blocks < 1:
        raise StartError(
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` "
            "when initializing the engine."
        )
    capacity = blocks * options.block_size
    length = options.max_model_len or min(shape.max_positions, capacity)
    if length > capacity:
        raise StartError(
            f"To serve at least one request with the model's max seq len ({length}), "
            f"({length * a_token / GIB:.2f} GiB KV cache is needed, which is larger than the "
            f"available KV cache memory ({blocks * block_bytes / GIB:.2f} GiB). Based on the "
            f"available memory, the estimated maximum model length is {capacity}. Try increasing "
            "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
        )
    return Budget(weights, kv_gib, blocks, options.block_size, length)
