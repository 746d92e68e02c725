"""Smaller weights against BF16's: what they save in memory traffic, on both kinds of work."""

import pytest

from suites.servers import AWQ, BASE, FP8
from suites.traffic import CHAT, DECODE, PREFILL

pytestmark = pytest.mark.gpu


@pytest.mark.llmperf(servers=[AWQ, FP8], against=BASE, traffic=[CHAT])
def test_smaller_weights_answer_sooner(llm_comparison):
    """10 requests a second are all that a fast GPU gets: what must pay is the time of a token."""
    llm_comparison.expect("itl.mean", at_most=1.0)
    llm_comparison.check()


@pytest.mark.llmperf(servers=[AWQ, FP8], against=BASE, traffic=[DECODE])
def test_smaller_weights_decode_faster(llm_comparison):
    """Decode reads all weights a step: fewer bytes must pay, on every GPU."""
    llm_comparison.expect("output_tps", at_least=1.0)
    llm_comparison.expect("weights_gib", at_most=0.7)
    llm_comparison.expect("kv_tokens", at_least=1.0)
    llm_comparison.check()


@pytest.mark.llmperf(servers=[AWQ, FP8], against=BASE, traffic=[PREFILL])
def test_smaller_weights_on_long_prompts(llm_comparison):
    """Prefill is bound by compute, where dequantising may cost more than it saves."""
    llm_comparison.check()
