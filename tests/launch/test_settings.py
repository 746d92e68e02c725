"""Where models lie on a host, also those that only an argument names."""

from __future__ import annotations

import json

from pytest_llmperf.launch.settings import arguments_here, model_here
from pytest_llmperf.model.server import ServerSpec

MODELS = {"Qwen/Qwen3-0.6B": "/models/draft", "Qwen/Qwen3-14B": "/models/big"}


def here(*arguments):
    """Return what becomes of those arguments on a host that has both models."""
    return arguments_here(ServerSpec.of("a", "vllm", "Qwen/Qwen3-14B", arguments), MODELS).arguments


def test_the_servers_own_model_is_found():
    """By the name that the suite gives it."""
    assert model_here(ServerSpec.of("a", "vllm", "Qwen/Qwen3-14B"), MODELS) == "/models/big"


def test_a_draft_model_is_found_inside_the_json():
    """Nothing else of the configuration changes, in either way of writing it."""
    config = json.dumps({"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 4})
    there = json.dumps({"model": "/models/draft", "num_speculative_tokens": 4})
    assert here("--speculative-config", config) == ("--speculative-config", there)
    assert here(f"--speculative-config={config}") == (f"--speculative-config={there}",)


def test_a_tokenizer_is_found_as_a_word_of_its_own():
    """``--tokenizer NAME`` and ``--tokenizer=NAME``."""
    assert here("--tokenizer", "Qwen/Qwen3-14B") == ("--tokenizer", "/models/big")
    assert here("--tokenizer=Qwen/Qwen3-14B") == ("--tokenizer=/models/big",)


def test_everything_else_stays_as_it_was_written():
    """Other models, other JSON, and JSON that is none."""
    words = ("-sc", '{"method": "ngram"}', "--x={broken", "--max-model-len", "8192", "org/other")
    assert here(*words) == words
