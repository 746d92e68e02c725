"""The memory budget of one simulated GPU: weights, KV cache and how many tokens it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_llmperf.engines.sim.options import SimOptions
    from pytest_llmperf.engines.sim.shapes import ModelShape

GIB = 1 << 30
GPU_GIB = 139.8
"""An H200's memory as vLLM sees it."""
OVERHEAD_GIB = 1.83
"""Activations, workspaces, context: what is left of 139.8 GiB at 0.92 in both H200 logs."""
GRAPHS_GIB = 0.9
BITS = {"none": 16.0, "fp8": 8.0, "int4": 4.37}
"""Bits a layer parameter. int4 with its scales, zeros and repacking: 9.62 GiB for the AWQ log."""
INT4 = ("awq", "gptq", "int4", "w4a16", "4bit")
FP8 = ("fp8", "w8a8", "int8", "8bit")


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


def quantization(options: SimOptions) -> str:
    """Return ``none``, ``fp8`` or ``int4``, from the argument or else from the model's name."""
    said = (options.quantization or options.model.rstrip("/").rpartition("/")[2]).lower()
    if any(word in said for word in INT4):
        return "int4"
    return "fp8" if any(word in said for word in FP8) else "none"


def weights_gib(shape: ModelShape, options: SimOptions) -> float:
    """Return the GiB that one GPU's share of the weights takes."""
    bits = BITS[quantization(options)] * shape.layer_parameters + 16 * shape.embedding_parameters
    return bits / 8 / GIB / options.tensor_parallel_size


def plan_memory(shape: ModelShape, options: SimOptions) -> Budget:
    """Divide the GPU's memory as vLLM does; raise StartError where it does not suffice.

    A length that was not asked for is cut to what the KV cache holds; one that was is an error.
    """
    weights = weights_gib(shape, options)
    kv_gib = GPU_GIB * options.gpu_memory_utilization - weights - OVERHEAD_GIB
    value_bytes = 1 if "fp8" in options.kv_cache_dtype else 2
    token_bytes = shape.kv_bytes_per_token(value_bytes) / options.tensor_parallel_size
    block_bytes = token_bytes * options.block_size
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
            f"({length * token_bytes / GIB:.2f} GiB KV cache is needed, which is larger than the "
            f"available KV cache memory ({blocks * block_bytes / GIB:.2f} GiB). Based on the "
            f"available memory, the estimated maximum model length is {capacity}. Try increasing "
            "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
        )
    return Budget(weights, kv_gib, blocks, options.block_size, length)
