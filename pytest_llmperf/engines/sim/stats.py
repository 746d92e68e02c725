"""The lines that vLLM logs every ten seconds while it has work: throughput, and its drafts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_llmperf.engines.sim.log import Log
    from pytest_llmperf.engines.sim.metrics import Metrics
    from pytest_llmperf.engines.sim.scheduler import Scheduler

INTERVAL_S = 10.0


class StatsLog:
    """Logs while there is work and once more after it; an idle server has no timer.

    ``on_idle`` is called when that last line is written.
    """

    def __init__(
        self,
        scheduler: Scheduler[Any],
        metrics: Metrics,
        log: Log,
        on_idle: Callable[[], object],
    ) -> None:
        self._scheduler = scheduler
        self._metrics = metrics
        self._log = log
        self._on_idle = on_idle
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._counted = (0, 0)
        self._drafted: tuple[int, ...] = ()

    def wake(self) -> None:
        """Begin to log, unless it is under way."""
        if self._timer is None:
            self._timer = self._loop.call_later(INTERVAL_S, self._tick)

    def _tick(self) -> None:
        metrics, before = self._metrics, self._counted
        # What was found in the cache is no throughput: the line counts what was computed.
        computed = metrics.prompt_tokens - metrics.cached_prompt_tokens
        self._counted = now = (computed, metrics.generation_tokens)
        prompt, generation = ((a - b) / INTERVAL_S for a, b in zip(now, before, strict=True))
        running, waiting = len(self._scheduler.running), self._scheduler.queued
        self._log.info(
            "APIServer",
            "loggers.py:273",
            f"Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, "
            f"Avg generation throughput: {generation:.1f} tokens/s, "
            f"Running: {running} reqs, Waiting: {waiting} reqs, "
            f"GPU KV cache usage: {100 * self._scheduler.kv_usage:.1f}%, "
            f"Prefix cache hit rate: {100 * metrics.recent_hit_rate:.1f}%",
        )
        if metrics.spec_decode is not None:
            self._log_drafts(metrics.spec_decode.values())
        idle = not running and not waiting and now == before
        self._timer = None if idle else self._loop.call_later(INTERVAL_S, self._tick)
        if idle:
            self._on_idle()

    def _log_drafts(self, now: tuple[int, ...]) -> None:
        before = self._drafted or (0,) * len(now)
        self._drafted = now
        drafts, tokens, accepted, *positions = (a - b for a, b in zip(now, before, strict=True))
        if not drafts:
            return
        rates = ", ".join(f"{count / drafts:.3f}" for count in positions)
        self._log.info(
            "APIServer",
            "metrics.py:120",
            f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, "
            f"Accepted throughput: {accepted / INTERVAL_S:.2f} tokens/s, "
            f"Drafted throughput: {tokens / INTERVAL_S:.2f} tokens/s, "
            f"Accepted: {accepted} tokens, Drafted: {tokens} tokens, "
            f"Per-position acceptance rate: {rates}, "
            f"Avg Draft acceptance rate: {100 * accepted / tokens:.1f}%",
        )
