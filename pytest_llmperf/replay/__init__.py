"""Traffic to records: the load runs in a process of its own and is parsed when it is over."""

from __future__ import annotations

from pytest_llmperf.replay.run import replay, warm_up

__all__ = ["replay", "warm_up"]
