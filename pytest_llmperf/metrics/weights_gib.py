"""Weights on a GPU: ``weights_gib``, in GiB, lower is better.

Source: the server's log at launch. The same at every launch of one version, so it is gated
without noise. Absent where the log does not say (a CPU server).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.model.metric import Better, Fact

if TYPE_CHECKING:
    from pytest_llmperf.model.launch import LaunchFacts


def value(facts: LaunchFacts) -> float | None:
    """Return the GiB of weights a GPU; None where the launch did not say."""
    return facts.weights_gib


METRIC = Fact("weights_gib", "Weights", "GiB", Better.LOWER, value, gated=("weights_gib",))
