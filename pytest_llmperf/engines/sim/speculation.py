"""Speculative decoding: what ``--speculative-config`` asks for, and how often a draft is right.

Whether a draft token is accepted depends on texts, and there are none here: every draft token is
accepted with the same chance, given that all before it were.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_llmperf.engines.sim.gpus import Weights
from pytest_llmperf.engines.sim.shapes import ModelShape, shape_of, weights_of

if TYPE_CHECKING:
    from collections.abc import Mapping

NGRAM, DRAFT_MODEL = "ngram", "draft_model"
HEADS = ("eagle", "eagle3", "mtp")
"""Methods whose draft is one more layer of the target, which shares the target's embeddings."""
RATES = {NGRAM: 0.3, DRAFT_MODEL: 0.6, "eagle": 0.65, "eagle3": 0.75, "mtp": 0.8}
"""Method → chance of acceptance where nothing says it. An assumption, not a measurement: it
stands for conversations, where little of a prompt comes again in the answer."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """``tokens`` drafts a step and sequence, each accepted with chance ``rate``.

    ``rate`` holds given that all drafts before it were accepted. ``draft``: the shape of what
    makes them, None for n-grams, with layers stored as ``weights``; ``model``: its name.
    """

    method: str
    tokens: int
    rate: float
    draft: ModelShape | None = None
    weights: Weights = "none"
    model: str | None = None

    @property
    def own_embeddings(self) -> bool:
        """Whether the draft has embeddings of its own."""
        return self.method == DRAFT_MODEL

    @property
    def slots(self) -> int:
        """Tokens a sequence that a step keeps free for drafting, as vLLM counts them."""
        return 1 if self.method == DRAFT_MODEL else 0

    @property
    def mean_length(self) -> float:
        """Tokens that a step gives a sequence on average: 1 + p + p² + … + p^tokens."""
        return sum(self.rate**power for power in range(self.tokens + 1))


def read_speculation(text: str, target: str, acceptance: float | None) -> Speculation:
    """Read vLLM's JSON for a ``target`` model; ``acceptance`` sets the chance, whatever it says.

    Raise ValueError with the rule, the value and the choices.
    """
    config = _object(text)
    method, model = _method(config)
    tokens = config.get("num_speculative_tokens")
    if tokens is None:
        raise ValueError(
            "num_speculative_tokens must be provided (the simulated engine reads no draft model's "
            "config)"
        )
    if type(tokens) is not int or tokens < 1:
        raise ValueError(f"num_speculative_tokens is a whole number of at least 1, got {tokens!r}")
    _check_lookup(config)
    rate = _rate(config, method, tokens, acceptance)
    if method == NGRAM:
        return Speculation(method, tokens, rate)
    if method == DRAFT_MODEL:
        if model is None:
            raise ValueError("method 'draft_model' needs a model")
        draft, weights = shape_of(model), weights_of(model, config.get("quantization"))
        return Speculation(method, tokens, rate, draft, weights, model)
    shape = shape_of(target)
    head = replace(shape, family=f"{shape.family}'s {method} head", layers=1)
    return Speculation(method, tokens, rate, head, "none", model)


def scheduled_ahead(speculation: Speculation | None, *, asked: bool | None) -> bool:
    """Return whether steps are scheduled ahead; by default where vLLM 0.25.1 does it.

    Raise ValueError where it refuses to, in its words.
    """
    method = speculation.method if speculation else None
    if asked is None:
        return method is None or method in HEADS
    if asked and method == NGRAM:
        raise ValueError(
            "Currently, async scheduling is only supported with EAGLE/MTP/Draft Model/NGram GPU "
            "kind of speculative decoding"
        )
    return asked


def rate_of(length: float, tokens: int) -> float:
    """Return the chance p for which 1 + p + … + p^tokens is ``length``, by bisection.

    Raise ValueError for a length outside 1 to ``tokens`` + 1, in vLLM's words.
    """
    if not 1.0 <= length <= tokens + 1:
        raise ValueError(f"synthetic_acceptance_length must be in [1, {tokens + 1}], got {length}.")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(middle**power for power in range(tokens + 1)) < length:
            low = middle
        else:
            high = middle
    return high


def _object(text: str) -> Mapping[str, Any]:
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error} (an object, as {_EXAMPLE})") from None
    if not isinstance(config, dict):
        raise ValueError(f"a JSON object is needed, as {_EXAMPLE}, got {text!r}")  # noqa: TRY004
    return config


_EXAMPLE = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'


def _method(config: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the method, found from the model where none is said, and the model."""
    method, model = config.get("method"), config.get("model")
    if model is not None and (not isinstance(model, str) or not model):
        raise ValueError(f"model is a name or a folder, got {model!r}")
    if method is None:
        if model is None:
            raise ValueError("a method or a model is needed, got neither")
        if model.strip("[]") == NGRAM:
            return NGRAM, None
        name = model.lower()
        method = next((head for head in ("eagle3", "eagle") if head in name), DRAFT_MODEL)
    if method not in RATES:
        raise ValueError(
            f"method {method!r}: the simulated engine has {', '.join(RATES)}; leave this server "
            "out of rehearsals, or give it one of these"
        )
    return method, model


def _check_lookup(config: Mapping[str, Any]) -> None:
    """Refuse windows of n-grams that vLLM refuses. Their size has no effect here."""
    for name in ("prompt_lookup_min", "prompt_lookup_max"):
        value = config.get(name)
        if value is not None and (type(value) is not int or value < 1):
            raise ValueError(f"{name} is a whole number of at least 1, got {value!r}")
    low, high = config.get("prompt_lookup_min"), config.get("prompt_lookup_max")
    if low is not None and high is not None and low > high:
        raise ValueError(f"prompt_lookup_min={low} must be <= prompt_lookup_max={high}")


def _rate(config: Mapping[str, Any], method: str, tokens: int, acceptance: float | None) -> float:
    sampling = config.get("rejection_sample_method", "standard")
    if sampling not in {"standard", "block", "synthetic"}:
        raise ValueError(
            f"rejection_sample_method is standard, block or synthetic, got {sampling!r}"
        )
    length = _length(config, sampling, tokens)
    if acceptance is not None:
        return acceptance
    return RATES[method] if length is None else rate_of(length, tokens)


def _length(config: Mapping[str, Any], sampling: str, tokens: int) -> float | None:
    """Return the mean length that a synthetic acceptance asks for."""
    length = config.get("synthetic_acceptance_length")
    rates = config.get("synthetic_acceptance_rates")
    if sampling != "synthetic":
        if length is not None or rates is not None:
            raise ValueError("synthetic_acceptance_*: needs rejection_sample_method 'synthetic'")
        return None
    if (length is None) == (rates is None):
        raise ValueError(
            "rejection_sample_method='synthetic' requires exactly one of "
            "synthetic_acceptance_rates or synthetic_acceptance_length."
        )
    if rates is not None:
        length = _length_of(rates, tokens)
    if not isinstance(length, int | float) or isinstance(length, bool):
        raise ValueError(f"synthetic_acceptance_length is no number: {length!r}")  # noqa: TRY004
    return float(length)


def _length_of(rates: object, tokens: int) -> float:
    """Return 1 + the sum: each rate is the chance that all drafts up to its own are accepted."""
    usable = isinstance(rates, list) and all(
        isinstance(rate, int | float) and 0 <= rate <= 1 for rate in rates
    )
    if not isinstance(rates, list) or not usable or len(rates) != tokens:
        raise ValueError(
            f"synthetic_acceptance_rates are {tokens} numbers from 0 to 1, got {rates!r}"
        )
    return 1.0 + sum(rates)
