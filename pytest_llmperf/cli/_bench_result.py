"""The result of ``pytest-llmperf bench``: the keys of ``vllm bench serve``'s JSON, and ours.

Where the definitions differ the key has the truer one (docs: metrics): output tokens are the
server's, ``max_output_tokens_per_s`` counts tokens and not chunks, ``itl`` is per token, a
role chunk is no token, and what no request brought is null and not 0. Everything of ours
that vLLM has no key for lies under ``llmperf``.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_llmperf.cli._bench_flags import PERCENTILE_METRICS
from pytest_llmperf.errors import UsageError
from pytest_llmperf.metrics import METRICS, duration_s, figures_of, goodput
from pytest_llmperf.model.metric import Distribution

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pytest_llmperf.model.record import Counters, Replay, RequestRecord
    from pytest_llmperf.model.traffic import Traffic

OURS = {"client_queue_time": "queue_delay"}
"""vLLM's name of a metric that has another here."""

DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"


def result_of(
    options: argparse.Namespace, traffic: Traffic, replay: Replay, model: str, date: str
) -> dict[str, Any]:
    """Return the result, in vLLM's order of keys."""
    figures = figures_of(replay)
    return {
        "date": date,
        "endpoint_type": options.backend,
        "backend": options.backend,
        "label": options.label,
        "model_id": model,
        "tokenizer_id": options.tokenizer or model,
        "num_prompts": len(replay.records),
        **dict(options.metadata),
        "request_rate": "inf" if math.isinf(options.request_rate) else options.request_rate,
        "burstiness": options.burstiness,
        "max_concurrency": options.max_concurrency,
        **_ramp_up(options),
        **_totals(options, replay, figures),
        **_speculation(replay.counters or {}),
        **_latencies(options, replay),
        "llmperf": {
            "figures": figures,
            "traffic_digest": traffic.digest,
            "tokens_counted_by": traffic.counted_by,
            "notes": list(traffic.notes),
            "clock": replay.clock,
            "counted_by": sorted({record.counted_by for record in replay.records}),
            "errors": dict(errors_of(replay)),
            "health": {
                name: getattr(replay.health, name) for name in type(replay.health).__slots__
            },
        },
    }


def errors_of(replay: Replay) -> Counter[str]:
    """Return how often each error occurred."""
    return Counter(record.error for record in replay.records if record.error)


def samples_ms(name: str, replay: Replay) -> Sequence[float]:
    """Return the samples of a metric by vLLM's name."""
    if name == "e2el_including_client_queue":
        return [(r.chunk_ns[-1] - r.due_ns) / 1e6 for r in _completed(replay)]
    metric = METRICS[OURS.get(name, name)]
    return metric.samples(replay) if isinstance(metric, Distribution) else ()


def statistics_ms(values: Sequence[float], percents: Sequence[float]) -> dict[str, float | None]:
    """Return mean, median, std and percentiles as vLLM computes them; None without samples."""
    if not len(values):
        return dict.fromkeys(("mean", "median", "std", *map(percent_key, percents)))
    return {
        "mean": float(np.mean(values)),
        "median": float(np.median(values)),
        "std": float(np.std(values)),
        **{percent_key(p): float(np.percentile(values, p)) for p in percents},
    }


def percent_key(percent: float) -> str:
    """Return ``p99``, ``p99.9``."""
    return f"p{percent:g}"


def require_folder(options: argparse.Namespace) -> None:
    """Make the folder of the result; raise UsageError where nothing can be written there.

    Before the measurement: a result that cannot be saved would be minutes lost.
    """
    folder = Path(options.result_dir or ".", options.result_filename or "result").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--result-dir {folder}: {error.strerror or error}") from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--result-dir {folder}: this user may not write there")


def save(result: dict[str, Any], options: argparse.Namespace) -> Path:
    """Write the result where vLLM's bench would; return the path."""
    path = Path(options.result_dir or ".", options.result_filename or _file_name(result))
    with path.open("a" if options.append_result else "w") as file:
        if options.append_result and file.tell():
            file.write("\n")
        json.dump(result, file)
    return path


def _file_name(result: dict[str, Any]) -> str:
    label = result["label"] or result["backend"]
    model = result["model_id"].rstrip("/").split("/")[-1]
    cap = result["max_concurrency"]
    capped = f"-concurrency{cap}" if cap is not None else ""
    rate = f"{result['request_rate']}qps"
    if "ramp_up_strategy" in result:
        start, end = result["ramp_up_start_rps"], result["ramp_up_end_rps"]
        rate = f"ramp-up-{result['ramp_up_strategy']}-{start}qps-{end}qps"
    return f"{label}-{rate}{capped}-{model}-{result['date']}.json"


def _ramp_up(options: argparse.Namespace) -> dict[str, Any]:
    names = ("ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps")
    return {name: getattr(options, name) for name in names} if options.ramp_up_strategy else {}


def _completed(replay: Replay) -> list[RequestRecord]:
    return [record for record in replay.records if record.error is None]


def _totals(
    options: argparse.Namespace, replay: Replay, figures: dict[str, float]
) -> dict[str, Any]:
    done = _completed(replay)
    counted = [record.prompt_tokens for record in done if record.prompt_tokens is not None]
    output = sum(record.output_tokens or 0 for record in done)
    peak = figures.get("peak_concurrency")
    return {
        "duration": duration_s(replay),
        "completed": len(done),
        "failed": len(replay.records) - len(done),
        "total_input_tokens": sum(counted) if counted or not done else None,
        "total_output_tokens": output,
        "request_throughput": figures.get("request_rate"),
        "request_goodput": goodput(replay, dict(options.goodput)) if options.goodput else None,
        "output_throughput": figures.get("output_tps"),
        "total_token_throughput": figures.get("total_tps"),
        "latencies": [_seconds(record.sent_ns, record) for record in replay.records],
        "queue_times": [
            None if record.sent_ns is None else (record.sent_ns - record.due_ns) / 1e9
            for record in replay.records
        ],
        "max_output_tokens_per_s": figures.get("peak_output_tps"),
        "max_concurrent_requests": None if peak is None else int(peak),
        "rtfx": 0.0,
    }


def _seconds(since_ns: int | None, record: RequestRecord) -> float | None:
    if since_ns is None or record.error is not None:
        return None
    return (record.chunk_ns[-1] - since_ns) / 1e9


def _speculation(counters: Counters) -> dict[str, Any]:
    drafts, drafted, accepted = (counters.get(name, 0.0) for name in (DRAFTS, DRAFTED, ACCEPTED))
    if not drafts or not drafted:
        return {}
    return {
        "spec_decode_acceptance_rate": accepted / drafted * 100,
        "spec_decode_acceptance_length": 1 + accepted / drafts,
        "spec_decode_num_drafts": int(drafts),
        "spec_decode_draft_tokens": int(drafted),
        "spec_decode_accepted_tokens": int(accepted),
    }


def _latencies(options: argparse.Namespace, replay: Replay) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in PERCENTILE_METRICS:
        if name in options.percentile_metrics:
            statistics = statistics_ms(samples_ms(name, replay), options.metric_percentiles)
            found.update({f"{key}_{name}_ms": value for key, value in statistics.items()})
    return found
