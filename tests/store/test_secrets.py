"""Secrets are masked by name, by option and by shape; what only looks alike is kept."""

from __future__ import annotations

import pytest

from pytest_llmperf.store._secrets import (
    is_secret,
    masked_arguments,
    masked_mapping,
    masked_text,
)


@pytest.mark.parametrize(
    "name",
    [
        "VLLM_API_KEY",
        "HF_TOKEN",
        "Authorization",
        "Proxy-Authorization",
        "x-api-key",
        "apiKey",
        "DB_PASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "Cookie",
        "--hf-token",
        "OPENAI_CREDENTIALS",
        "GITHUB_TOKEN_RO",
        "HF_TOKEN2",
        "API_KEYS",
        "S3_KEY_1",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    """Keys, tokens, passwords and credentials, however they are spelt."""
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    ["num_tokens", "max_tokens", "stop_token_ids", "eos_token", "tokenizer", "monkey", "sort_keys",
     "VLLM_CPU_KVCACHE_SPACE", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "--num-speculative-tokens", "author"],
)  # fmt: skip
def test_names_that_only_look_alike_are_kept(name: str) -> None:
    """A count of tokens is no token."""
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pytest -m gpu --api-key hunter2 -q", "pytest -m gpu --api-key *** -q"),
        ("--api-key=hunter2", "--api-key=***"),
        ("take --api-key out of its arguments", "take --api-key out of its arguments"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer ***"),
        ("postgresql://ci:hunter2@db/history", "postgresql://ci:***@db/history"),
        ("non-default args: {'api_key': ['hunter2'], 'port': 8000}",
         "non-default args: {'api_key': ***, 'port': 8000}"),
        ("HF_TOKEN=hf_abcdefghijklmnop", "HF_TOKEN=***"),
        ("key sk-abcdefghijklmnop given", "key *** given"),
        ("GPU KV cache size: 767,872 tokens", "GPU KV cache size: 767,872 tokens"),
        ("--max-num-batched-tokens 8192", "--max-num-batched-tokens 8192"),
    ],
)  # fmt: skip
def test_secrets_in_a_text_are_masked(text: str, expected: str) -> None:
    """A command line, a URL or a log line keeps all but the secret."""
    assert masked_text(text) == expected


def test_values_of_secret_options_are_masked() -> None:
    """All the keys that --api-key takes are masked, and the option after it is not."""
    words = ("--api-key", "one", "two", "--max-model-len", "8192", "--hf-token=three")
    assert masked_arguments(words) == (
        "--api-key", "***", "***", "--max-model-len", "8192", "--hf-token=***",
    )  # fmt: skip


def test_nested_values_are_masked() -> None:
    """A secret is masked at any depth; a number under such a name is none."""
    mapping = {"headers": {"Authorization": "Bearer x"}, "token": 3, "history": "sqlite:///h.db"}
    assert masked_mapping(mapping) == {
        "headers": {"Authorization": "***"}, "token": 3, "history": "sqlite:///h.db",
    }  # fmt: skip
