"""The time of one forward pass of a model, from the bytes that it reads and the FLOPs it does.

A roofline a part: weights are read once however many tokens there are, until the products take
longer than the reading; keys and values are read a sequence; what tensor parallel adds is sent
between parts, and nothing overlaps with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.engines.sim.memory import BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.engines.sim.gpus import Gpu, Interconnect, Weights
    from pytest_llmperf.engines.sim.shapes import ModelShape

ACTIVATION_BYTES = 2
"""Activations and logits are in 16 bits."""


class ForwardTime:
    """Says how long one model's forward pass takes on ``gpus`` of a kind.

    ``value_bytes`` is the size of a value in the KV cache.
    """

    def __init__(
        self,
        shape: ModelShape,
        weights: Weights,
        gpu: Gpu,
        link: Interconnect,
        gpus: int = 1,
        value_bytes: int = 2,
    ) -> None:
        self._shape = shape
        self._link = link
        self._gpus = gpus
        self._fixed_s = gpu.efficiency.step_s + shape.layers * gpu.efficiency.layer_s
        self.launch_s = shape.layers * gpu.efficiency.host_layer_s
        """Seconds of the host to launch all layers where no CUDA graph does."""
        stored_bytes = BITS[weights] / 8 * shape.layer_parameters / gpus
        self._layers_read_s = stored_bytes / gpu.bytes_per_s
        if weights == "int4":
            unpacking_s = shape.layer_parameters / gpus / gpu.efficiency.unpacked
            self._layers_read_s = max(self._layers_read_s, unpacking_s)
        self._layers_token_s = 2 * shape.layer_parameters / gpus / gpu.flops_per_s(weights)
        head = shape.head_parameters / gpus
        self._head_read_s = ACTIVATION_BYTES * head / gpu.bytes_per_s
        self._head_row_s = 2 * head / gpu.flops_per_s()
        self._kv_token_s = shape.kv_bytes_per_token(value_bytes, gpus) / gpu.bytes_per_s
        # A query meets a key twice: for its weight, and with it for the value.
        pair_flops = 4 * shape.layers * shape.heads * shape.head_dim / gpus
        self._pair_s = pair_flops / gpu.flops_per_s()

    def seconds(self, tokens: Sequence[int], before: Sequence[int], rows: int) -> float:
        """Return the seconds of a pass.

        ``tokens`` are computed a sequence, after ``before`` whose keys and values exist;
        ``rows`` of them need logits.
        """
        total = sum(tokens)
        return (
            self._fixed_s
            + max(self._layers_read_s, total * self._layers_token_s)
            + self._head_s(rows)
            + self._attention_s(tokens, before)
            + self._exchange_s(total, rows)
        )

    def _head_s(self, rows: int) -> float:
        return max(self._head_read_s, rows * self._head_row_s) if rows else 0.0

    def _attention_s(self, tokens: Sequence[int], before: Sequence[int]) -> float:
        seconds = 0.0
        for new, old in zip(tokens, before, strict=True):
            pairs = new * old + new * (new + 1) / 2
            seconds += max((old + new) * self._kv_token_s, pairs * self._pair_s)
        return seconds

    def _exchange_s(self, total: int, rows: int) -> float:
        """Two all-reduces of the hidden states a layer, and the logits' parts to one place."""
        if self._gpus == 1:
            return 0.0
        hidden = ACTIVATION_BYTES * self._shape.hidden * total
        logits = ACTIVATION_BYTES * self._shape.vocabulary * rows
        reduced = 2 * self._shape.layers * self._link.all_reduce_s(hidden, self._gpus)
        return reduced + self._link.all_gather_s(logits, self._gpus)
