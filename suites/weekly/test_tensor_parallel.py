"""Two and four GPUs a model against one. What it brings hangs on the interconnect."""

import pytest

from suites.servers import BASE, TP2, TP4
from suites.traffic import CHAT, DECODE, PREFILL

pytestmark = pytest.mark.gpu


@pytest.mark.llmperf(servers=[TP2, TP4], against=BASE, traffic=[CHAT, DECODE, PREFILL])
def test_tensor_parallel(llm_comparison):
    """The KV cache must grow; latency and throughput are held against accepted nights."""
    llm_comparison.expect("kv_tokens", at_least=1.5)
    llm_comparison.check()
