"""The nightly core: Qwen3-14B as it is and quantised, on conversations.

On a GPU runner:  pytest -m gpu suites
Without a GPU:    pytest suites --llmperf-engine sim
"""

import pytest

from pytest_llmperf import sharegpt, vllm

CHAT = sharegpt("chat", num_prompts=400, request_rate=10, max_concurrency=10)

BASE = vllm("qwen3-14b", "Qwen/Qwen3-14B", "--max-model-len", "8192")
AWQ = vllm("qwen3-14b-awq", "Qwen/Qwen3-14B-AWQ", "--max-model-len", "8192")


@pytest.mark.gpu
@pytest.mark.llmperf(servers=[BASE, AWQ], traffic=[CHAT])
def test_serving(llm_verdict):
    """Conversations at 10 requests a second, 10 at once, feel immediate."""
    llm_verdict.check(slo={"ttft.p99": "< 200 ms", "itl.mean": "< 50 ms"})
