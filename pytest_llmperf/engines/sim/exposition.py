"""The ``/metrics`` page: vLLM's names, labels and help, in Prometheus' text format."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_llmperf.engines.sim.metrics import Histogram, Metrics, SpecCounts

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
HELP = {
    "request_prompt_tokens": "Number of prefill tokens processed.",
    "request_generation_tokens": "Number of generation tokens processed.",
    "iteration_tokens_total": "Histogram of number of tokens per engine_step.",
    "request_max_num_generation_tokens": "Histogram of maximum number of requested generation tokens.",
    "request_params_n": "Histogram of the n request parameter.",
    "request_params_max_tokens": "Histogram of the max_tokens request parameter.",
    "time_to_first_token_seconds": "Histogram of time to first token in seconds.",
    "inter_token_latency_seconds": "Histogram of inter-token latency in seconds.",
    "request_time_per_output_token_seconds": "Histogram of time_per_output_token_seconds per request.",
    "e2e_request_latency_seconds": "Histogram of e2e request latency in seconds.",
    "request_queue_time_seconds": "Histogram of time spent in WAITING phase for request.",
    "request_inference_time_seconds": "Histogram of time spent in RUNNING phase for request.",
    "request_prefill_time_seconds": "Histogram of time spent in PREFILL phase for request.",
    "request_decode_time_seconds": "Histogram of time spent in DECODE phase for request.",
    "request_prefill_kv_computed_tokens": "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
}
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is true at this moment: requests and the share of the KV cache in use (0 to 1)."""

    running: int
    waiting: int
    kv_usage: float


class Exposition:
    """Writes the page. ``cache_config`` are the labels of ``vllm:cache_config_info``."""

    def __init__(self, model_name: str, cache_config: Labels) -> None:
        self._labels = {"engine": "0", "model_name": model_name}
        self._cache_config = {**cache_config, "engine": "0"}
        self._start_time = _process_start_time()

    def page(self, metrics: Metrics, gauges: Gauges) -> bytes:
        """Return the page as it is sent."""
        lines = [*self._process()]
        if metrics.spec_decode is not None:
            lines += self._speculation(metrics.spec_decode)
        lines += (*self._gauges(gauges), *self._counters(metrics))
        for name, histogram in metrics.histograms.items():
            lines += self._histogram(name, histogram)
        help_text = "Information of the LLMEngine CacheConfig"
        lines += _head("vllm:cache_config_info", "gauge", help_text)
        lines.append(f"vllm:cache_config_info{_braces(self._cache_config)} 1.0")
        return ("\n".join(lines) + "\n").encode()

    def _process(self) -> Iterator[str]:
        start = "process_start_time_seconds"
        yield from _head(start, "gauge", "Start time of the process since unix epoch in seconds.")
        yield f"{start} {self._start_time}"
        cpu = "process_cpu_seconds_total"
        yield from _head(cpu, "counter", "Total user and system CPU time spent in seconds.")
        yield f"{cpu} {time.process_time()}"

    def _gauges(self, gauges: Gauges) -> Iterator[str]:
        running = "Number of requests in model execution batches."
        yield from self._one("num_requests_running", "gauge", running, gauges.running)
        waiting = "Number of requests waiting to be processed."
        yield from self._one("num_requests_waiting", "gauge", waiting, gauges.waiting)
        usage = "KV-cache usage. 1 means 100 percent usage."
        yield from self._one("kv_cache_usage_perc", "gauge", usage, gauges.kv_usage)

    def _counters(self, metrics: Metrics) -> Iterator[str]:
        prompts, cached = metrics.prompt_tokens, metrics.cached_prompt_tokens
        counters = (
            ("prefix_cache_queries_total", metrics.prefix_queries,
             "Prefix cache queries, in terms of number of queried tokens."),
            ("prefix_cache_hits_total", metrics.prefix_hits,
             "Prefix cache hits, in terms of number of cached tokens."),
            ("num_preemptions_total", metrics.preemptions,
             "Cumulative number of preemption from the engine."),
            ("prompt_tokens_total", prompts, "Number of prefill tokens processed."),
            ("prompt_tokens_cached_total", cached,
             "Number of cached prompt tokens (local + external)."),
            ("generation_tokens_total", metrics.generation_tokens,
             "Number of generation tokens processed."),
        )  # fmt: skip
        for name, value, text in counters:
            yield from self._one(name, "counter", text, value)
        sources = {
            "local_compute": prompts - cached,
            "local_cache_hit": cached,
            "external_kv_transfer": 0,
        }
        text = "Number of prompt tokens by source."
        yield from self._several("prompt_tokens_by_source_total", text, "source", sources)
        text = "Count of successfully processed requests."
        reasons = metrics.finished_by_reason
        yield from self._several("request_success_total", text, "finished_reason", reasons)

    def _speculation(self, counts: SpecCounts) -> Iterator[str]:
        counters = (
            ("drafts", counts.drafts, "Number of spec decoding drafts."),
            ("draft_tokens", counts.draft_tokens, "Number of draft tokens."),
            ("accepted_tokens", counts.accepted_tokens, "Number of accepted tokens."),
        )
        for name, value, text in counters:
            yield from self._one(f"spec_decode_num_{name}_total", "counter", text, value)
        by_position = {str(at): n for at, n in enumerate(counts.accepted_by_position)}
        name, text = "accepted_tokens_per_pos", "Accepted tokens per draft position."
        yield from self._several(f"spec_decode_num_{name}_total", text, "position", by_position)

    def _several(
        self, name: str, text: str, label: str, values: Mapping[str, int]
    ) -> Iterator[str]:
        yield from _head(f"vllm:{name}", "counter", text)
        for key, value in values.items():
            yield f"vllm:{name}{_braces({**self._labels, label: key})} {float(value)}"

    def _one(self, name: str, kind: str, text: str, value: float) -> Iterator[str]:
        yield from _head(f"vllm:{name}", kind, text)
        yield f"vllm:{name}{_braces(self._labels)} {float(value)}"

    def _histogram(self, name: str, histogram: Histogram) -> Iterator[str]:
        yield from _head(f"vllm:{name}", "histogram", HELP[name])
        bounds: Iterable[str] = (*map(str, histogram.bounds), "+Inf")
        for bound, count in zip(bounds, accumulate(histogram.counts), strict=True):
            yield f"vllm:{name}_bucket{_braces({**self._labels, 'le': bound})} {float(count)}"
        yield f"vllm:{name}_count{_braces(self._labels)} {float(sum(histogram.counts))}"
        yield f"vllm:{name}_sum{_braces(self._labels)} {histogram.sum}"


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _braces(labels: Labels) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _process_start_time() -> float:
    """Return when the process started, in seconds since the epoch, as prometheus_client does."""
    try:
        ticks = float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(float(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return time.time()
    return boot + ticks / os.sysconf("SC_CLK_TCK")
