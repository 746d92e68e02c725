"""What is assumed of a figure's noise (GATE.md's tables)."""

import pytest

from pytest_llmperf.gate import assumed_sd


@pytest.mark.parametrize(
    ("figure", "share"),
    [
        ("output_tps", 0.01),
        ("total_tps", 0.01),
        ("itl.mean", 0.01),
        ("itl.median", 0.01),
        ("tpot.mean", 0.01),
        ("ttft.p99", 0.02),
        ("ttft.mean", 0.05),
        ("ttft.median", 0.05),
        ("itl.p99", 0.32),
        ("acceptance_length", 0.02),
        ("e2el.p90", 0.02),
        ("tpot.p99", 0.02),
        ("somebody.else", 0.02),
    ],
)
def test_assumed_sd(figure, share):
    """Throughput and steps 1 %, TTFT 2 to 5 %, the ITL's tail 32 %, the unknown 2 %."""
    assert assumed_sd(figure) == share
