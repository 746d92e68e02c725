"""The figures beside vLLM's own formulas, written plainly, on one synthetic replay.

calculate_metrics of vLLM 0.32's benchmarks/serve.py and async_request_openai_completions of
its benchmarks/lib/endpoint_request_func.py, for streams of one token a chunk.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pytest_llmperf.metrics import figures_of

SECOND = 1e9


@pytest.fixture
def streams():
    """300 requests of 1 to 40 tokens; a tenth failed. (sent, chunk times, success) in ns."""
    draw = np.random.RandomState(11)
    made = []
    for number in range(300):
        sent = int(draw.randint(0, 20 * SECOND))
        gaps = draw.gamma(4.0, 5e6, size=draw.randint(1, 41)).astype(np.int64)
        gaps[0] += 40_000_000
        made.append((sent, (sent + np.cumsum(gaps)).tolist(), number % 10 != 0))
    return made


def vllms(streams):
    """Return vLLM's figures in ms and tokens a second, keyed as ours."""
    ttfts, itls, tpots, e2els, output = [], [], [], [], 0
    for sent, times, success in streams:
        if not success:
            continue
        st, stamps = sent / SECOND, [at / SECOND for at in times]
        ttft = stamps[0] - st
        itl = [later - earlier for earlier, later in pairwise(stamps)]
        latency = stamps[-1] - st
        output_len = len(stamps)
        if output_len > 1:
            tpots.append((latency - ttft) / (output_len - 1))
        ttfts.append(ttft)
        itls += itl
        e2els.append(latency)
        output += output_len
    duration = max(s[1][-1] for s in streams) / SECOND - min(s[0] for s in streams) / SECOND
    figures = {"output_tps": output / duration, "request_rate": len(ttfts) / duration}
    for name, values in (("ttft", ttfts), ("itl", itls), ("tpot", tpots), ("e2el", e2els)):
        figures |= {
            f"{name}.mean": np.mean(values) * 1000,
            f"{name}.median": np.median(values) * 1000,
            f"{name}.std": np.std(values) * 1000,
            **{f"{name}.p{p}": np.percentile(values, p) * 1000 for p in (90, 95, 99)},
        }
    return figures


def test_with_a_token_a_chunk_the_figures_are_vllms(streams, record, replay):
    """TTFT, ITL, TPOT, E2EL and throughput, every statistic, failed requests left out."""
    ours = figures_of(
        replay(
            *(
                record(
                    sent / 1e6,
                    [at / 1e6 for at in times],
                    error=None if success else "cut off",
                )
                for sent, times, success in streams
            )
        )
    )
    theirs = vllms(streams)
    assert {name: ours[name] for name in theirs} == pytest.approx(theirs, rel=1e-9)
    assert ours["error_rate"] == pytest.approx(0.1)
