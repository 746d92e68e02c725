"""Prefix caching on against off."""

import pytest

from suites.servers import BASE, NO_PREFIX_CACHE
from suites.traffic import CHAT, PREFIX

pytestmark = pytest.mark.gpu


@pytest.mark.llmperf(servers=[BASE], against=NO_PREFIX_CACHE, traffic=[PREFIX])
def test_prefix_cache_pays_on_shared_prefixes(llm_comparison):
    """Half of each prompt is found in the cache: the first token must come sooner."""
    llm_comparison.expect("ttft.mean", at_most=1.0)
    llm_comparison.check()


@pytest.mark.llmperf(servers=[BASE], against=NO_PREFIX_CACHE, traffic=[CHAT])
def test_prefix_cache_on_conversations(llm_comparison):
    """Conversations of strangers share nothing: the cache must not cost them anything."""
    llm_comparison.check()
