"""The traffics that the suites replay. A changed option is another digest, and so new nights."""

from pytest_llmperf import prefix_repetition, random, sharegpt

CHAT = sharegpt("chat", num_prompts=400, request_rate=10, max_concurrency=10)
"""Conversations of real users, as many at once as keep a 14B model's answers fluent."""

PREFIX = prefix_repetition(
    "prefix",
    num_prompts=400,
    request_rate=10,
    max_concurrency=16,
    num_prefixes=10,
    prefix_len=256,
    suffix_len=256,
    output_len=128,
)
"""Ten long beginnings, each shared by forty requests: what a prefix cache is for."""

UNEQUAL = 0.25
"""Lengths vary by a quarter: answers that end together would make the requests move in waves."""

PREFILL = random(
    "prefill-heavy",
    num_prompts=96,
    max_concurrency=8,
    input_len=4096,
    output_len=16,
    range_ratio=UNEQUAL,
)
"""Long prompts with short answers: retrieval, classification. Bound by compute."""

DECODE = random(
    "decode-heavy",
    num_prompts=64,
    max_concurrency=16,
    input_len=128,
    output_len=512,
    range_ratio=UNEQUAL,
)
"""Short prompts with long answers: reasoning, code. Bound by memory bandwidth."""
