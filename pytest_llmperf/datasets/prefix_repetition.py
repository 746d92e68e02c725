"""Prompts that share prefixes, for prefix caching: ``prefix_repetition``.

As ``vllm bench serve --dataset-name prefix_repetition`` (``PrefixRepetitionRandomDataset``,
vLLM 0.32): ``num_prefixes`` random prefixes, each followed by suffixes of its own, in an order
that the seed shuffles. Prompts are token ids, so prefix and suffix are exactly as long as
asked. Where ``num_prompts`` is no multiple of ``num_prefixes``, vLLM sends fewer prompts than
asked; here the first prefixes get one more.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Unpack

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
from pytest_llmperf.model.options import require
from pytest_llmperf.model.traffic import Prompt, Tokenizer, TrafficOptions, TrafficSpec


@dataclass(frozen=True, slots=True)
class _Options(TokenIdOptions):
    prefix_len: int = 256
    suffix_len: int = 256
    num_prefixes: int = 10
    output_len: int = 128


def prefix_repetition(
    name: str,
    *,
    prefix_len: int = 256,
    suffix_len: int = 256,
    num_prefixes: int = 10,
    output_len: int = 128,
    token_ids: tuple[int, int] = DEFAULT_IDS,
    **options: Unpack[TrafficOptions],
) -> TrafficSpec:
    """Traffic of shared prefixes and own suffixes, for the completions endpoint.

    ``prefix_len``, ``suffix_len`` and ``output_len`` are in tokens. ``token_ids``: the first
    id, and the one after the last. Raise SpecError for values that cannot be.
    """
    own = {
        "prefix_len": prefix_len,
        "suffix_len": suffix_len,
        "num_prefixes": num_prefixes,
        "output_len": output_len,
        "token_ids": token_ids,
    }
    spec = TrafficSpec.of(name, "prefix_repetition", own, options)
    _read(spec)
    # Asked here alone: a rehearsal may cut a suite's traffic to fewer prompts than prefixes.
    require(
        owner_of(spec),
        (
            num_prefixes <= spec.num_prompts,
            f"num_prefixes is {num_prefixes}, more than the {spec.num_prompts} prompts",
        ),
    )
    return spec


class PrefixRepetition:
    """The dataset behind ``prefix_repetition``."""

    def prompts(self, spec: TrafficSpec, tokenizer: Tokenizer) -> Drawn:  # noqa: ARG002
        """Return prompts of token ids; nothing needs to count them (hence the unused one)."""
        options = _read(spec)
        state = np.random.RandomState(spec.seed)
        each, one_more = divmod(spec.num_prompts, options.num_prefixes)
        length = options.prefix_len + options.suffix_len
        prompts = []
        for number in range(options.num_prefixes):
            prefix = draw_ids(state, options.token_ids, options.prefix_len)
            for _ in range(each + (number < one_more)):
                suffix = draw_ids(state, options.token_ids, options.suffix_len)
                prompts.append(Prompt(prefix + suffix, length, options.output_len))
        Random(spec.seed).shuffle(prompts)  # noqa: S311  # vLLM's order; no secret is made
        return Drawn(tuple(prompts), counted_by=COUNTED_BY)


def _read(spec: TrafficSpec) -> _Options:
    """Return the options of a spec, checked."""
    options = read_options(
        spec,
        _Options,
        counts=("prefix_len", "suffix_len"),
        at_least_1=("num_prefixes", "output_len"),
    )
    require(
        owner_of(spec),
        (
            options.prefix_len + options.suffix_len >= 1,
            "prefix_len and suffix_len are both 0; a prompt needs at least 1 token",
        ),
    )
    return options


DATASET = PrefixRepetition()
