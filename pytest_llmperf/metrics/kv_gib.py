"""KV cache on a GPU: ``kv_gib``, in GiB, higher is better.

Source: the server's log at launch. Not gated itself: ``kv_tokens``, which follows from it and
from the size of a token's keys and values, is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.model.metric import Better, Fact

if TYPE_CHECKING:
    from pytest_llmperf.model.launch import LaunchFacts


def value(facts: LaunchFacts) -> float | None:
    """Return the GiB of KV cache a GPU; None where the launch did not say."""
    return facts.kv_gib


METRIC = Fact("kv_gib", "KV cache", "GiB", Better.HIGHER, value)
