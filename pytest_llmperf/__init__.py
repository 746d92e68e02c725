"""Gate LLM serving performance with pytest.

A suite imports its servers and traffics from here::

    from pytest_llmperf import sharegpt, vllm

    CHAT = sharegpt("chat", num_prompts=400, request_rate=10, max_concurrency=10)
    BASE = vllm("qwen3-14b", "Qwen/Qwen3-14B", "--max-model-len", "8192")

Every engine and every dataset is here under its module's name, one dropped into its package
too. Nothing is imported before it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_llmperf.datasets.custom import custom
    from pytest_llmperf.datasets.multi_turn import multi_turn
    from pytest_llmperf.datasets.prefix_repetition import prefix_repetition
    from pytest_llmperf.datasets.random import random
    from pytest_llmperf.datasets.sharegpt import sharegpt
    from pytest_llmperf.datasets.trace import trace
    from pytest_llmperf.engines.attach import attach
    from pytest_llmperf.engines.sim import sim
    from pytest_llmperf.engines.vllm import vllm

__all__ = [
    "attach",
    "custom",
    "multi_turn",
    "prefix_repetition",
    "random",
    "sharegpt",
    "sim",
    "trace",
    "vllm",
]


def __getattr__(name: str) -> Any:
    """Return the constructor of the engine or dataset of that name."""
    if not name.startswith("_"):
        from pytest_llmperf.datasets import DATASETS
        from pytest_llmperf.engines import ENGINES

        for catalog in (ENGINES, DATASETS):
            if name in catalog:
                return getattr(catalog.module(name), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
