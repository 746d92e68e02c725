"""Synthetic prompts of a fixed length, or of lengths around a mean: ``random``.

Prompts are token ids, so a prompt has exactly the tokens asked for whatever the model. For
the same seed and a tokenizer that adds no special tokens, the lengths are those of ``vllm
bench serve --dataset-name random`` (``RandomDataset``, vLLM 0.32); the ids are not.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from pytest_llmperf.datasets import Drawn
from pytest_llmperf.datasets._token_ids import (
    COUNTED_BY,
    DEFAULT_IDS,
    TokenIdOptions,
    draw_ids,
    owner_of,
    read_options,
)
from pytest_llmperf.model.options import is_number, require
from pytest_llmperf.model.traffic import Prompt, Tokenizer, TrafficOptions, TrafficSpec

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class _Options(TokenIdOptions):
    input_len: int = 1024
    output_len: int = 128
    range_ratio: Any = 0.0
    prefix_len: int = 0

    @property
    def ratios(self) -> tuple[Any, Any]:
        """The ratios of input and output, unchecked; a mapping was frozen to its JSON."""
        if not isinstance(self.range_ratio, str):
            return self.range_ratio, self.range_ratio
        try:
            both = json.loads(self.range_ratio)
        except ValueError:
            both = None
        if not isinstance(both, dict) or set(both) != {"input", "output"}:
            return None, None
        return both["input"], both["output"]


def random(
    name: str,
    *,
    input_len: int = 1024,
    output_len: int = 128,
    range_ratio: float | Mapping[str, float] = 0.0,
    prefix_len: int = 0,
    token_ids: tuple[int, int] = DEFAULT_IDS,
    **options: Unpack[TrafficOptions],
) -> TrafficSpec:
    """Traffic of random token ids, for the completions endpoint.

    A length L is drawn evenly from [⌊L·(1 - r)⌋, ⌈L·(1 + r)⌉] with r = ``range_ratio``, which
    may be ``{"input": r, "output": r}``. ``prefix_len`` ids, the same for every prompt, come
    before them. ``token_ids``: the first id, and the one after the last. Raise SpecError for
    values that cannot be.
    """
    own = {
        "input_len": input_len,
        "output_len": output_len,
        "range_ratio": range_ratio,
        "prefix_len": prefix_len,
        "token_ids": token_ids,
    }
    spec = TrafficSpec.of(name, "random", own, options)
    _read(spec)
    return spec


class Random:
    """The dataset behind ``random``."""

    def prompts(self, spec: TrafficSpec, tokenizer: Tokenizer) -> Drawn:  # noqa: ARG002
        """Return prompts of token ids; nothing needs to count them (hence the unused one)."""
        options = _read(spec)
        input_ratio, output_ratio = options.ratios
        # vLLM's generator, and its order: all inputs, then all outputs.
        lengths = np.random.default_rng(spec.seed)
        inputs = _around(lengths, options.input_len, input_ratio, spec.num_prompts, 0)
        outputs = _around(lengths, options.output_len, output_ratio, spec.num_prompts, 1)
        state = np.random.RandomState(spec.seed)
        prefix = draw_ids(state, options.token_ids, options.prefix_len)
        return Drawn(
            tuple(
                Prompt(
                    prefix + draw_ids(state, options.token_ids, length),
                    options.prefix_len + length,
                    output,
                )
                for length, output in zip(inputs, outputs, strict=True)
            ),
            counted_by=COUNTED_BY,
        )


def _around(
    lengths: np.random.Generator, mean: int, ratio: float, count: int, least: int
) -> list[int]:
    """Return ``count`` lengths drawn evenly around ``mean``, as vLLM's get_sampling_params."""
    low = max(math.floor(mean * (1 - ratio)), least)
    high = max(math.ceil(mean * (1 + ratio)), least)
    drawn: list[int] = lengths.integers(low, high + 1, size=count).tolist()
    return drawn


def _read(spec: TrafficSpec) -> _Options:
    """Return the options of a spec, checked."""
    options = read_options(
        spec, _Options, counts=("input_len", "prefix_len"), at_least_1=("output_len",)
    )
    require(
        owner_of(spec),
        (
            all(is_number(ratio) and 0 <= ratio < 1 for ratio in options.ratios),
            (
                f"range_ratio is {options.range_ratio!r}, not a share of at least 0 and below 1, "
                "nor one for 'input' and one for 'output'"
            ),
        ),
    )
    shortest = options.prefix_len + math.floor(options.input_len * (1 - options.ratios[0]))
    require(
        owner_of(spec),
        (shortest >= 1, "a prompt could be empty; raise input_len or prefix_len"),
    )
    return options


DATASET = Random()
