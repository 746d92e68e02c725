"""The nightly core: the configurations that are served, on the traffic that they serve.

On a GPU runner:  pytest -m gpu suites/nightly      (--llmperf-plan: its GPU minutes)
Without a GPU:    pytest suites/nightly --llmperf-engine sim
"""

import pytest

from suites.servers import AWQ, BASE, NGRAM, NO_PREFIX_CACHE
from suites.traffic import CHAT, PREFIX

pytestmark = pytest.mark.gpu


@pytest.mark.llmperf(servers=[BASE, AWQ], traffic=[CHAT, PREFIX])
def test_serving(llm_verdict):
    """Conversations and shared prefixes at 10 requests a second feel immediate."""
    llm_verdict.check(slo={"ttft.p99": "< 200 ms", "itl.mean": "< 50 ms"})


@pytest.mark.llmperf(servers=[NO_PREFIX_CACHE], traffic=[PREFIX])
def test_without_prefix_cache(llm_verdict):
    """The same prompts computed whole: a slower prefill cannot hide behind the cache."""
    llm_verdict.check()


@pytest.mark.llmperf(servers=[NGRAM], traffic=[CHAT])
def test_ngram_speculation(llm_verdict):
    """Drafts from the prompt: acceptance and the time of a step are told apart."""
    llm_verdict.check()
