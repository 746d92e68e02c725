"""The gate: pure functions from values to findings. No I/O, no pytest, no GPU, no network.

``judge_values`` compares with accepted nights, ``judge_exact`` what has no noise,
``judge_limit`` with an absolute limit, ``judge_ratio`` two servers launched in turn.
"""

from pytest_llmperf.gate.assumed import assumed_sd
from pytest_llmperf.gate.exact import TOLERANCE as EXACT_TOLERANCE
from pytest_llmperf.gate.exact import judge_exact
from pytest_llmperf.gate.limits import judge_limit
from pytest_llmperf.gate.ratio import judge_ratio
from pytest_llmperf.gate.rule import Rule, session_alpha
from pytest_llmperf.gate.stored import judge_values
from pytest_llmperf.model.noise import estimate_noise, pool
from pytest_llmperf.model.verdict import Finding, Noise, Status

__all__ = [
    "EXACT_TOLERANCE",
    "Finding",
    "Noise",
    "Rule",
    "Status",
    "assumed_sd",
    "estimate_noise",
    "judge_exact",
    "judge_limit",
    "judge_ratio",
    "judge_values",
    "pool",
    "session_alpha",
]
