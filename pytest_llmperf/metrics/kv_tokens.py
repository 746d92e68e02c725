"""Tokens that the KV cache holds: ``kv_tokens``, higher is better.

Source: the server's log at launch. It changes with the version of the server, and with it how
many requests run at once, so it is gated without noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.model.metric import Better, Fact

if TYPE_CHECKING:
    from pytest_llmperf.model.launch import LaunchFacts


def value(facts: LaunchFacts) -> float | None:
    """Return the tokens that the KV cache holds; None where the launch did not say."""
    return facts.kv_tokens


METRIC = Fact("kv_tokens", "KV cache size", "tokens", Better.HIGHER, value, gated=("kv_tokens",))
