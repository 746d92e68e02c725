"""What ``pytest-llmperf bench`` prints: vLLM's table, and below it what that leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_llmperf.cli._bench_flags import PERCENTILE_METRICS
from pytest_llmperf.cli._bench_result import percent_key

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from pytest_llmperf.model.record import Replay

WIDTH = 50


def table(result: dict[str, Any], options: argparse.Namespace, replay: Replay) -> str:
    """Return the table as text."""
    return "\n".join(
        [
            "{s:{c}^{n}}".format(s=" Serving Benchmark Result ", n=WIDTH, c="="),
            *_totals(result),
            *_latencies(result, options),
            *_ours(result, replay),
            "=" * WIDTH,
        ]
    )


def row(title: str, value: object) -> str:
    """Return one line in vLLM's layout."""
    if isinstance(value, float):
        value = f"{value:.2f}"
    return f"{title + ':':<40} {'n/a' if value is None else value:<10}".rstrip()


def _totals(result: dict[str, Any]) -> Iterator[str]:
    rows = (
        ("Successful requests", "completed"),
        ("Failed requests", "failed"),
        ("Maximum request concurrency", "max_concurrency"),
        ("Request rate configured (RPS)", "request_rate"),
        ("Benchmark duration (s)", "duration"),
        ("Total input tokens", "total_input_tokens"),
        ("Total generated tokens", "total_output_tokens"),
        ("Request throughput (req/s)", "request_throughput"),
        ("Request goodput (req/s)", "request_goodput"),
        ("Output token throughput (tok/s)", "output_throughput"),
        ("Peak output token throughput (tok/s)", "max_output_tokens_per_s"),
        ("Peak concurrent requests", "max_concurrent_requests"),
        ("Total token throughput (tok/s)", "total_token_throughput"),
        ("Acceptance rate (%)", "spec_decode_acceptance_rate"),
        ("Acceptance length", "spec_decode_acceptance_length"),
    )
    optional = {"max_concurrency", "request_goodput"}
    for title, key in rows:
        value = result.get(key)
        shown = key in result and not (value is None and key in optional)
        if shown and not (key == "request_rate" and value == "inf"):
            yield row(title, value)


def _latencies(result: dict[str, Any], options: argparse.Namespace) -> Iterator[str]:
    for name, heading in PERCENTILE_METRICS.items():
        if name not in options.percentile_metrics:
            continue
        yield f"{heading:-^{WIDTH}}"
        label = name.replace("_", " ").upper()
        yield row(f"Mean {label} (ms)", result[f"mean_{name}_ms"])
        yield row(f"Median {label} (ms)", result[f"median_{name}_ms"])
        for percent in options.metric_percentiles:
            key = percent_key(percent)
            yield row(f"{key.upper()} {label} (ms)", result[f"{key}_{name}_ms"])


def _ours(result: dict[str, Any], replay: Replay) -> Iterator[str]:
    figures, health = result["llmperf"]["figures"], replay.health
    yield f"{'Beside it':-^{WIDTH}}"
    yield row("Median TTFT from due time (ms)", figures.get("ttft_due.median"))
    yield row("P99 TTFT from due time (ms)", figures.get("ttft_due.p99"))
    yield row("Throughput without cached (tok/s)", figures.get("uncached_tps"))
    yield row("Steady output throughput (tok/s)", figures.get("steady_output_tps"))
    yield row("Clock", replay.clock)
    yield row("Tokens counted by", ", ".join(result["llmperf"]["counted_by"]))
    yield row("P99 lateness of sends (ms)", health.send_lag_p99_ns / 1e6)
    yield row("Longest look away from sockets (ms)", health.loop_lag_max_ns / 1e6)
    yield row("CPU of the load process (%)", 100 * health.cpu_s / max(health.wall_s, 1e-9))
    if health.reconnects:
        yield row("Requests sent again", health.reconnects)
    for note in result["llmperf"]["notes"]:
        yield f"Note: {note}"
