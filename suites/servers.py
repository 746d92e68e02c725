"""The servers that the suites measure: Qwen3-14B, and one change a server.

A name is a server's identity in baselines and history: change arguments, keep names.
"""

import json

from pytest_llmperf import vllm

MODEL = "Qwen/Qwen3-14B"
LENGTH = ("--max-model-len", "8192")


def variant(name, *arguments, model=MODEL):
    """Return the base server with more arguments, or with other weights."""
    return vllm(name, model, *LENGTH, *arguments)


def speculative(**config):
    """Return the arguments of speculative decoding, as vLLM takes them: one JSON object."""
    return "--speculative-config", json.dumps(config)


BASE = variant("qwen3-14b")

# Weights
AWQ = variant("qwen3-14b-awq", model="Qwen/Qwen3-14B-AWQ")
FP8 = variant("qwen3-14b-fp8", model="Qwen/Qwen3-14B-FP8")

# Prefix caching (vLLM has it on unless told otherwise)
NO_PREFIX_CACHE = variant("qwen3-14b-no-prefix-cache", "--no-enable-prefix-caching")

# Speculative decoding
NGRAM = variant(
    "qwen3-14b-ngram",
    *speculative(method="ngram", num_speculative_tokens=4, prompt_lookup_max=4),
)
DRAFT = variant(
    "qwen3-14b-draft",
    *speculative(method="draft_model", model="Qwen/Qwen3-0.6B", num_speculative_tokens=4),
)

# Tensor parallel
TP2 = variant("qwen3-14b-tp2", "--tensor-parallel-size", "2")
TP4 = variant("qwen3-14b-tp4", "--tensor-parallel-size", "4")

# Batching and the KV cache
SEQS_64 = variant("qwen3-14b-seqs-64", "--max-num-seqs", "64")
BATCH_2K = variant("qwen3-14b-batch-2k", "--max-num-batched-tokens", "2048")
BATCH_16K = variant("qwen3-14b-batch-16k", "--max-num-batched-tokens", "16384")
UNCHUNKED = variant("qwen3-14b-unchunked", "--no-enable-chunked-prefill")
BLOCK_32 = variant("qwen3-14b-block-32", "--block-size", "32")
MEMORY_80 = variant("qwen3-14b-memory-80", "--gpu-memory-utilization", "0.80")
LONG = variant("qwen3-14b-long", "--max-model-len", "32768")
