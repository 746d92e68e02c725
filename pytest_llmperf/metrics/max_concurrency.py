"""Requests of full length that fit at once: ``max_concurrency``, higher is better.

Source: the server's log at launch: KV-cache tokens over the maximum model length, as the server
itself computes it. Gated without noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.model.metric import Better, Fact

if TYPE_CHECKING:
    from pytest_llmperf.model.launch import LaunchFacts


def value(facts: LaunchFacts) -> float | None:
    """Return the requests of full length that the KV cache holds; None where the launch did not say."""
    return facts.max_concurrency


METRIC = Fact(
    "max_concurrency", "Maximum concurrency", "", Better.HIGHER, value, gated=("max_concurrency",)
)
