"""The shapes of well-known models, found by the size that a model's name says."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pytest_llmperf.engines.sim.gpus import Weights

INT4 = ("awq", "gptq", "int4", "w4a16", "4bit")
INT8 = ("int8", "w8a8", "8bit")
FP8 = ("fp8",)
"""What says, in ``--quantization`` or a model's name, how the layers are stored."""
SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A dense decoder's dimensions, from its ``config.json``."""

    family: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    max_positions: int
    tied: bool = False

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embeddings (in, and out where untied): never quantised."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def head_parameters(self) -> int:
        """Parameters of the output embeddings, which a step reads whole."""
        return self.vocabulary * self.hidden

    @property
    def layer_parameters(self) -> int:
        """Parameters of all layers: attention (q, k, v, o) and a gated MLP."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    def kv_bytes_per_token(self, bytes_per_value: int, gpus: int = 1) -> int:
        """Bytes that one token's keys and values take in all layers, on one of ``gpus``.

        Each has its share of the heads, but at least one: more GPUs than heads repeat them.
        """
        heads = max(1, self.kv_heads // gpus)
        return 2 * self.layers * heads * self.head_dim * bytes_per_value


SMOLLM2_135M = ModelShape("SmolLM2-135M", 30, 576, 1536, 9, 3, 64, 49_152, 8_192, tied=True)
QWEN3_14B = ModelShape("Qwen3-14B", 40, 5120, 17_408, 40, 8, 128, 151_936, 40_960)
SHAPES = {
    0.135: SMOLLM2_135M,
    0.6: ModelShape("Qwen3-0.6B", 28, 1024, 3072, 16, 8, 128, 151_936, 40_960, tied=True),
    1.7: ModelShape("Qwen3-1.7B", 28, 2048, 6144, 16, 8, 128, 151_936, 40_960, tied=True),
    4.0: ModelShape("Qwen3-4B", 36, 2560, 9728, 32, 8, 128, 151_936, 40_960, tied=True),
    8.0: ModelShape("Qwen3-8B", 36, 4096, 12_288, 32, 8, 128, 151_936, 40_960),
    14.0: QWEN3_14B,
    32.0: ModelShape("Qwen3-32B", 64, 5120, 25_600, 64, 8, 128, 151_936, 40_960),
    70.0: ModelShape("Llama-3.3-70B", 80, 8192, 28_672, 64, 8, 128, 128_256, 131_072),
}
"""Billions of parameters, as names say them → shape."""


def shape_of(model: str) -> ModelShape:
    """Return the shape nearest in size to what the model's name or folder says (``14B``).

    Where it says none, Qwen3-14B's. Of several sizes the first counts (``30B-A3B``).
    """
    found = SIZE.search(model.rstrip("/").rpartition("/")[2])
    if found is None:
        return QWEN3_14B
    size = float(found[1]) * (1e-3 if found[2] in "mM" else 1.0)
    if size <= 0:
        return QWEN3_14B
    return SHAPES[min(SHAPES, key=lambda known: abs(math.log(known / size)))]


def weights_of(model: str, quantization: str | None = None) -> Weights:
    """Return how the layers are stored: from the argument or else from the model's name."""
    said = (quantization or model.rstrip("/").rpartition("/")[2]).lower()
    if any(word in said for word in INT4):
        return "int4"
    if any(word in said for word in INT8):
        return "int8"
    return "fp8" if any(word in said for word in FP8) else "none"
