"""Models: their dimensions, and how their weights are stored."""

from __future__ import annotations

import pytest

from pytest_llmperf.engines.sim.shapes import shape_of, weights_of


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "SmolLM2-135M"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Qwen3-8B"),
        ("/models/qwen3-0.6b/", "Qwen3-0.6B"),
        ("Qwen/Qwen3-30B-A3B", "Qwen3-32B"),
        ("no-size-said", "Qwen3-14B"),
    ],
)
def test_the_shape_follows_the_size_in_the_name(model: str, family: str):
    """The nearest known one; 14B where the name says nothing."""
    assert shape_of(model).family == family


def test_shapes_have_the_parameters_that_their_names_say():
    """14.77e9 for Qwen3-14B, 160 KiB a token; 134.5e6 for SmolLM2-135M."""
    large, small = shape_of("14B"), shape_of("135M")
    assert large.layer_parameters + large.embedding_parameters == pytest.approx(14.77e9, rel=1e-3)
    assert large.kv_bytes_per_token(2) == 160 * 1024
    assert small.layer_parameters + small.embedding_parameters == pytest.approx(134.5e6, rel=1e-3)
    assert large.head_parameters == 151_936 * 5120


def test_gpus_share_the_heads_of_the_cache_and_each_has_one():
    """8 heads: a half on 2 GPUs, an eighth on 8, and no less on 16."""
    shape = shape_of("14B")
    shares = [shape.kv_bytes_per_token(2, gpus) for gpus in (1, 2, 8, 16)]
    assert shares == [163_840, 81_920, 20_480, 20_480]


@pytest.mark.parametrize(
    ("model", "quantization", "stored"),
    [
        ("Qwen/Qwen3-14B", None, "none"),
        ("Qwen/Qwen3-14B-AWQ", None, "int4"),
        ("Qwen/Qwen3-14B", "gptq_marlin", "int4"),
        ("Qwen/Qwen3-14B-FP8", None, "fp8"),
        ("M-w8a8", None, "int8"),
        ("/awq/M", None, "none"),
    ],
)
def test_the_weights_are_stored_as_the_argument_or_the_name_says(
    model: str, quantization: str | None, stored: str
):
    """The argument counts first; a folder above the model says nothing."""
    assert weights_of(model, quantization) == stored
