"""Speculative decoding against none. It may well lose: no fixed ratio holds on every machine."""

import pytest

from suites.servers import BASE, DRAFT, NGRAM
from suites.traffic import CHAT, DECODE

pytestmark = pytest.mark.gpu


@pytest.mark.llmperf(servers=[NGRAM, DRAFT], against=BASE, traffic=[CHAT])
def test_speculation_on_conversations(llm_comparison):
    """What drafts bring to real answers, against what it brought on accepted nights."""
    llm_comparison.check()


@pytest.mark.llmperf(servers=[NGRAM, DRAFT], traffic=[CHAT, DECODE])
def test_drafter_and_engine(llm_verdict):
    """Acceptance length and the time of a step, each against its own nights."""
    llm_verdict.check()
