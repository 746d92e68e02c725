"""What ``--speculative-config`` asks for, and how often a draft is right."""

from __future__ import annotations

import json

import pytest

from pytest_llmperf.engines.sim.speculation import Speculation, rate_of, read_speculation


def read(acceptance: float | None = None, **config: object) -> Speculation:
    return read_speculation(json.dumps(config), "Qwen/Qwen3-14B", acceptance)


@pytest.mark.parametrize(
    ("rate", "tokens", "length"),
    [(0.5, 2, 1.75), (0.5, 4, 1.9375), (1.0, 4, 5.0), (0.0, 3, 1.0), (0.8, 1, 1.8)],
)
def test_a_mean_length_has_one_chance(rate: float, tokens: int, length: float):
    """1 + p + p² + … + p^k: with p = 0.5 and k = 2 that is 1 + 0.5 + 0.25, and back."""
    assert rate_of(length, tokens) == pytest.approx(rate, abs=1e-9)
    assert Speculation("ngram", tokens, rate).mean_length == pytest.approx(length)


def test_a_synthetic_length_is_met():
    """The H200's run asked for 3.0 with 4 drafts."""
    found = read(
        model="/models/qwen3-0.6b",
        num_speculative_tokens=4,
        rejection_sample_method="synthetic",
        synthetic_acceptance_length=3.0,
    )
    assert found.mean_length == pytest.approx(3.0)
    assert (found.method, found.tokens, found.slots) == ("draft_model", 4, 1)
    assert found.draft is not None
    assert found.draft.family == "Qwen3-0.6B"


def test_synthetic_rates_are_a_length_too():
    """Chances that all drafts up to each are accepted: 1 + 1.0 + 0.5 + 0.25 = 2.75."""
    found = read(
        method="ngram",
        num_speculative_tokens=3,
        rejection_sample_method="synthetic",
        synthetic_acceptance_rates=[1.0, 0.5, 0.25],
    )
    assert found.mean_length == pytest.approx(2.75)


def test_without_a_length_the_method_decides():
    """A draft model is right more often than a look-up; --sim-acceptance overrules both."""
    lookup = read(method="ngram", num_speculative_tokens=4, prompt_lookup_max=4)
    draft = read(model="Qwen3-0.6B", num_speculative_tokens=4)
    assert (lookup.rate, draft.rate) == (0.3, 0.6)
    assert read(0.9, method="ngram", num_speculative_tokens=4).rate == 0.9


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"model": "ngram"}, "ngram"),
        ({"model": "yuhuili/EAGLE3-LLaMA"}, "eagle3"),
        ({"model": "yuhuili/EAGLE-LLaMA"}, "eagle"),
        ({"model": "Qwen/Qwen3-0.6B"}, "draft_model"),
        ({"method": "mtp"}, "mtp"),
    ],
)
def test_the_method_is_said_or_found(config: dict[str, str], method: str):
    """From the model's name, as vLLM finds it."""
    assert read(num_speculative_tokens=2, **config).method == method


def test_a_head_is_one_layer_of_the_target():
    """It needs no slot of its own and has the target's embeddings."""
    found = read(method="eagle3", model="E", num_speculative_tokens=2)
    assert found.draft is not None
    assert (found.draft.layers, found.draft.hidden) == (1, 5120)
    assert (found.own_embeddings, found.slots) == (False, 0)


def test_a_draft_model_may_be_quantised():
    """Its own name or argument says it, not the target's."""
    assert read(model="Qwen3-0.6B-FP8", num_speculative_tokens=2).weights == "fp8"
    assert read(model="D", quantization="awq", num_speculative_tokens=2).weights == "int4"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ngram", "not JSON"),
        ("[1]", "a JSON object is needed"),
        ("{}", "a method or a model is needed"),
        ('{"method": "ngram"}', "num_speculative_tokens must be provided"),
        ('{"method": "ngram", "num_speculative_tokens": 0}', "at least 1, got 0"),
        ('{"method": "ngram", "num_speculative_tokens": true}', "at least 1, got True"),
        ('{"method": "draft_model", "num_speculative_tokens": 1}', "needs a model"),
        (
            '{"method": "medusa", "num_speculative_tokens": 1}',
            "'medusa': .* has ngram, draft_model",
        ),
        ('{"model": 3, "num_speculative_tokens": 1}', "a name or a folder, got 3"),
        (
            '{"method": "ngram", "num_speculative_tokens": 1, "prompt_lookup_max": 0}',
            "prompt_lookup_max is a whole number of at least 1, got 0",
        ),
        (
            (
                '{"method": "ngram", "num_speculative_tokens": 1, "prompt_lookup_max": 2, '
                '"prompt_lookup_min": 3}'
            ),
            "prompt_lookup_min=3 must be <= prompt_lookup_max=2",
        ),
        (
            '{"method": "ngram", "num_speculative_tokens": 1, "synthetic_acceptance_length": 1.5}',
            "needs rejection_sample_method 'synthetic'",
        ),
        (
            '{"method": "ngram", "num_speculative_tokens": 1, "rejection_sample_method": "lucky"}',
            "standard, block or synthetic, got 'lucky'",
        ),
        (
            (
                '{"method": "ngram", "num_speculative_tokens": 1, '
                '"rejection_sample_method": "synthetic"}'
            ),
            "requires exactly one of",
        ),
        (
            (
                '{"method": "ngram", "num_speculative_tokens": 2, '
                '"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 3.5}'
            ),
            r"must be in \[1, 3\], got 3.5",
        ),
        (
            (
                '{"method": "ngram", "num_speculative_tokens": 2, '
                '"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.5]}'
            ),
            r"are 2 numbers from 0 to 1, got \[0.5\]",
        ),
    ],
)
def test_what_cannot_be_is_refused(text: str, complaint: str):
    """With the rule, the value and the choices."""
    with pytest.raises(ValueError, match=complaint):
        read_speculation(text, "Qwen/Qwen3-14B", None)
