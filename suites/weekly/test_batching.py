"""Knobs of the batch: each against the defaults, on the work that it weighs on."""

import pytest

from suites.servers import BASE, BATCH_2K, BATCH_16K, SEQS_64, UNCHUNKED
from suites.traffic import DECODE, PREFILL

pytestmark = pytest.mark.gpu


@pytest.mark.llmperf(servers=[BATCH_2K, BATCH_16K, UNCHUNKED], against=BASE, traffic=[PREFILL])
def test_size_of_prefill_steps(llm_comparison):
    """Small steps let decodes through, large ones fill the GPU."""
    llm_comparison.check()


@pytest.mark.llmperf(servers=[SEQS_64], against=BASE, traffic=[DECODE])
def test_sequences_at_once(llm_comparison):
    """16 requests at once never meet a limit of 64."""
    llm_comparison.check()
