"""What the engine counts, and the page and the log lines that say it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_llmperf.engines.sim.async_scheduler import AsyncScheduler
from pytest_llmperf.engines.sim.exposition import Exposition, Gauges
from pytest_llmperf.engines.sim.metrics import Metrics, SpecCounts, token_bounds
from pytest_llmperf.engines.sim.scheduler import Limits, Scheduler, Sequence
from pytest_llmperf.engines.sim.stats import StatsLog

if TYPE_CHECKING:
    from collections.abc import Mapping


class Job(Sequence):
    """A request as the metrics see it: arrived at 0 s."""

    asked_tokens = 10
    arrived = 0.0
    scheduled: float | None = 0.0
    first_token: float | None = None
    last_token: float | None = None


def counted(prompt: int = 100, cached: int = 0) -> Job:
    return Job(prompt, 10, cached_tokens=cached)


def page(metrics: Metrics) -> Mapping[str, float]:
    """Return ``name`` or ``name{position or source}`` → value."""
    text = Exposition("q", {}).page(metrics, Gauges(1, 2, 0.25)).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            label = sample.labels.get("position") or sample.labels.get("source")
            found[f"{sample.name}{{{label}}}" if label else sample.name] = sample.value
    return found


def test_token_bounds_are_vllms():
    """1, 2, 5, 10, ... up to the greatest length, as in the page of an H200 server."""
    expected = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
    assert token_bounds(8192) == expected


def test_a_hit_is_in_the_prefix_counters_and_the_sources():
    """Two prompts of 100 tokens, 64 of the second found: 200 asked, 64 hit, 136 computed."""
    metrics = Metrics(1000, prefix_caching=True)
    jobs = [counted(), counted(cached=64)]
    for job in jobs:
        metrics.admitted(job)
    metrics.stepped(jobs, 2, 1.0)
    found = page(metrics)
    expected = {
        "vllm:prefix_cache_queries_total": 200,
        "vllm:prefix_cache_hits_total": 64,
        "vllm:prompt_tokens_total": 200,
        "vllm:prompt_tokens_cached_total": 64,
        "vllm:prompt_tokens_by_source_total{local_compute}": 136,
        "vllm:prompt_tokens_by_source_total{local_cache_hit}": 64,
        "vllm:prompt_tokens_by_source_total{external_kv_transfer}": 0,
        "vllm:generation_tokens_total": 2,
    }
    assert {name: found[name] for name in expected} == expected


def test_without_prefix_caching_nothing_is_asked():
    """``prefix_cache_queries`` stays 0, so that a hit rate is absent and not 0."""
    metrics = Metrics(1000, prefix_caching=False)
    metrics.admitted(counted())
    assert (metrics.prefix_queries, metrics.recent_hit_rate) == (0, 0.0)


def test_the_logged_hit_rate_is_of_the_last_thousand_requests():
    """1 request with no hit and 1,000 with half of 100 tokens: the first is forgotten."""
    metrics = Metrics(1000, prefix_caching=True)
    metrics.admitted(counted())
    for _ in range(1000):
        metrics.admitted(counted(cached=50))
    assert metrics.recent_hit_rate == 0.5
    assert metrics.prefix_hits / metrics.prefix_queries == pytest.approx(50_000 / 100_100)


def test_drafts_are_on_the_page_by_position():
    """Drafts of 2 with 2, 1 and 0 accepted, and one of none: as vLLM counts them."""
    counts = SpecCounts(2)
    for drafted, accepted in ((2, 2), (2, 1), (2, 0), (0, 0)):
        counts.observe(drafted, accepted)
    metrics = Metrics(1000, prefix_caching=True)
    metrics.spec_decode = counts
    found = page(metrics)
    expected = {
        "vllm:spec_decode_num_drafts_total": 3,
        "vllm:spec_decode_num_draft_tokens_total": 6,
        "vllm:spec_decode_num_accepted_tokens_total": 3,
        "vllm:spec_decode_num_accepted_tokens_per_pos_total{0}": 2,
        "vllm:spec_decode_num_accepted_tokens_per_pos_total{1}": 1,
    }
    assert {name: found[name] for name in expected} == expected


def test_a_server_without_drafts_says_nothing_about_them():
    """As vLLM: the series are not there at all."""
    assert not [name for name in page(Metrics(1000, prefix_caching=True)) if "spec" in name]


class Lines:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, process: str, source: str, text: str) -> None:
        """Keep the line."""
        self.lines.append(f"[{source}] {text}")


def logged(
    *steps: Any, metrics: Metrics, scheduler: Scheduler[Sequence] | None = None
) -> list[str]:
    """Return what is logged after each of ``steps``, each as after ten seconds."""

    async def run() -> list[str]:
        lines = Lines()
        log: Any = lines
        watched = scheduler or Scheduler(Limits(8, 100, 100))
        stats = StatsLog(watched, metrics, log, on_idle=lambda: None)
        for step in steps:
            step()
            stats._tick()
        if stats._timer is not None:
            stats._timer.cancel()
        return lines.lines

    return asyncio.run(run())


def test_the_log_tells_hits_and_computed_prompt_tokens():
    """1,000 tokens of which 400 are found: 60 tokens/s of prompt in ten seconds, 40 % hits."""
    metrics = Metrics(2000, prefix_caching=True)
    job = counted(1000, 400)

    def step() -> None:
        metrics.admitted(job)
        metrics.stepped([job], 50, 1.0)

    expected = (
        "[loggers.py:273] Engine 000: Avg prompt throughput: 60.0 tokens/s, Avg generation "
        "throughput: 5.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, "
        "Prefix cache hit rate: 40.0%"
    )
    assert logged(step, metrics=metrics) == [expected]


def test_the_log_counts_who_is_not_planned_for_yet():
    """One runs, one arrived while its step runs: 1 running, 1 waiting."""
    engine: Scheduler[Sequence] = AsyncScheduler(Limits(8, 100, 100))

    def step() -> None:
        engine.add(Sequence(10, 5))
        engine.schedule()
        engine.add(Sequence(10, 5))

    (line,) = logged(step, metrics=Metrics(2000, prefix_caching=True), scheduler=engine)
    assert "Running: 1 reqs, Waiting: 1 reqs" in line


def test_the_log_tells_drafts_in_vllms_words():
    """Drafts of 4 with 2 accepted, as in the log of an H200 server; quiet where none was made."""
    metrics = Metrics(2000, prefix_caching=True)
    metrics.spec_decode = counts = SpecCounts(4)

    def step() -> None:
        for _ in range(10):
            counts.observe(4, 2)

    lines = logged(step, lambda: None, metrics=metrics)
    expected = (
        "[metrics.py:120] SpecDecoding metrics: Mean acceptance length: 3.00, Accepted "
        "throughput: 2.00 tokens/s, Drafted throughput: 4.00 tokens/s, Accepted: 20 tokens, "
        "Drafted: 40 tokens, Per-position acceptance rate: 1.000, 1.000, 0.000, 0.000, "
        "Avg Draft acceptance rate: 50.0%"
    )
    assert [line for line in lines if "SpecDecoding" in line] == [expected]
