"""Knobs of the KV cache: what they leave for it, and what that costs."""

import pytest

from suites.servers import BASE, BLOCK_32, LONG, MEMORY_80
from suites.traffic import DECODE, PREFIX

pytestmark = pytest.mark.gpu


@pytest.mark.llmperf(servers=[MEMORY_80], against=BASE, traffic=[DECODE])
def test_less_memory_is_less_cache(llm_comparison):
    """12 % less of the GPU is that much less KV cache, and the same speed where it suffices."""
    llm_comparison.expect("kv_tokens", at_most=0.95)
    llm_comparison.check()


@pytest.mark.llmperf(servers=[BLOCK_32], against=BASE, traffic=[DECODE, PREFIX])
def test_larger_blocks(llm_comparison):
    """Larger blocks are fewer to manage, and share less of a prefix."""
    llm_comparison.check()


@pytest.mark.llmperf(servers=[LONG], against=BASE, traffic=[DECODE])
def test_longer_context(llm_comparison):
    """A longer context that nobody uses must cost nothing but concurrency at full length."""
    llm_comparison.expect("max_concurrency", at_most=0.5)
    llm_comparison.check()
