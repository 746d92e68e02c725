"""The flags of ``pytest-llmperf bench``: those of ``vllm bench serve``, under its names."""

from __future__ import annotations

import argparse
import json
import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_llmperf.cli._bench_datasets import (
    add_dataset_flags,
    dataset_name,
    dataset_options,
    self_timed,
)
from pytest_llmperf.errors import UsageError
from pytest_llmperf.model.launch import Target
from pytest_llmperf.model.traffic import ENDPOINTS, TrafficOptions, TrafficSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BACKENDS = {
    "vllm": "completions",
    "openai": "completions",
    "vllm-chat": "chat",
    "openai-chat": "chat",
}
FORCES_LENGTH = ("random", "trace")
"""Datasets for which vLLM turns ``--ignore-eos`` on whether it is given or not."""

PERCENTILE_METRICS = {
    "ttft": "Time to First Token",
    "tpot": "Time per Output Token (excl. 1st token)",
    "itl": "Inter-token Latency",
    "e2el": "End-to-end Latency",
    "client_queue_time": "Client Queue Time",
    "e2el_including_client_queue": "End-to-end Latency incl. Client Queue",
}
"""vLLM's metrics in the order of its result, with their headings."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add every flag, in groups."""
    server = parser.add_argument_group("server")
    server.add_argument("--backend", "--endpoint-type", choices=BACKENDS, default="vllm")
    server.add_argument("--base-url", help="http://host:port, instead of --host and --port")
    server.add_argument("--host", default="127.0.0.1")
    server.add_argument("--port", type=int, default=8000)
    server.add_argument("--endpoint", help="path of the API (default: the backend's, /v1/…)")
    server.add_argument("--model", help="default: the first that the server lists")
    server.add_argument("--served-model-name", help="name to send, if it is not --model")
    server.add_argument("--tokenizer", help="folder with tokenizer.json (default: --model)")
    server.add_argument(
        "--header", type=pair, action="extend", nargs="*", default=[], metavar="KEY=VALUE"
    )
    server.add_argument("--extra-body", type=json_object, default={}, metavar="JSON")
    server.add_argument("--temperature", type=float, default=0.0, help="default 0: greedy")
    server.add_argument("--ignore-eos", action="store_true")
    server.add_argument(
        "--stall-timeout", type=float, default=600.0, help="seconds a stream may be silent"
    )
    add_traffic(parser.add_argument_group("traffic"))
    _add_result(parser.add_argument_group("result"))


def add_traffic(group: argparse._ArgumentGroup) -> None:
    add_dataset_flags(group, ratio)
    group.add_argument("--num-prompts", type=int, default=1000)
    group.add_argument("--num-warmups", type=int, default=0)
    group.add_argument("--seed", type=int, default=0)
    group.add_argument("--request-rate", type=float, default=math.inf, help="requests a second")
    group.add_argument("--burstiness", type=float, default=1.0)
    group.add_argument("--max-concurrency", type=int)
    group.add_argument("--ramp-up-strategy", choices=("linear", "exponential"))
    group.add_argument("--ramp-up-start-rps", type=int)
    group.add_argument("--ramp-up-end-rps", type=int)


def _add_result(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--goodput", type=limit, nargs="+", default=[], metavar="METRIC:MS")
    group.add_argument("--percentile-metrics", type=metric_names, default="ttft,tpot,itl")
    group.add_argument("--metric-percentiles", type=percentiles, default="99")
    group.add_argument("--save-result", action="store_true")
    group.add_argument("--append-result", action="store_true")
    group.add_argument("--result-dir")
    group.add_argument("--result-filename")
    group.add_argument("--label")
    group.add_argument("--metadata", type=pair, nargs="*", default=[], metavar="KEY=VALUE")


def traffic_spec(options: argparse.Namespace) -> TrafficSpec:
    """Return the recipe that the flags describe. Raise UsageError for what cannot be."""
    from pytest_llmperf.datasets import DATASETS

    name = dataset_name(options)
    common: TrafficOptions = {
        "num_prompts": options.num_prompts,
        "num_warmups": options.num_warmups,
        "seed": options.seed,
        "request_rate": options.request_rate,
        "max_concurrency": options.max_concurrency,
        **_arrival(options),
        "endpoint": BACKENDS[options.backend],
        "temperature": options.temperature,
        "ignore_eos": options.ignore_eos or name in FORCES_LENGTH,
        "extra_body": options.extra_body,
        "headers": dict(options.header),
    }
    constructor = getattr(DATASETS.module(name), name)
    spec: TrafficSpec = constructor(name, **dataset_options(options), **common)
    return spec


def _arrival(options: argparse.Namespace) -> TrafficOptions:
    """Return the arrival process that the flags ask for, with its options."""
    if self_timed(options):
        return {"arrival": "trace"}
    arrival_options: dict[str, Any] = {"burstiness": options.burstiness}
    if options.ramp_up_strategy is None:
        return {"arrival": "poisson", "arrival_options": arrival_options}
    if options.ramp_up_start_rps is None or options.ramp_up_end_rps is None:
        raise UsageError("--ramp-up-strategy needs --ramp-up-start-rps and --ramp-up-end-rps")
    arrival_options |= {
        "strategy": options.ramp_up_strategy,
        "start_rps": options.ramp_up_start_rps,
        "end_rps": options.ramp_up_end_rps,
    }
    return {"arrival": "ramp_up", "arrival_options": arrival_options}


def target_of(options: argparse.Namespace) -> Target:
    """Return where requests go; the model's name is empty where the flags give none.

    The key is the environment's OPENAI_API_KEY, as for vLLM's bench.
    """
    from pytest_llmperf.launch import target_from_url

    model = options.served_model_name or options.model or ""
    key = os.environ.get("OPENAI_API_KEY") or None
    url = options.base_url or f"http://{bracketed(options.host)}:{options.port}"
    target = target_from_url(url, model, key)
    path = ENDPOINTS[BACKENDS[options.backend]]
    asked = options.endpoint or path
    if not asked.endswith(path):
        raise UsageError(
            f"--endpoint {asked}: backend {options.backend} speaks to …{path}; choose the backend "
            f"for that endpoint: {', '.join(BACKENDS)}"
        )
    return replace(target, prefix=target.prefix + asked.removesuffix(path))


def bracketed(host: str) -> str:
    """Return a host as a URL has it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def pair(text: str) -> tuple[str, str]:
    """Read KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def json_object(text: str) -> Mapping[str, Any]:
    """Read a JSON object."""
    value = _json(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return value


def ratio(text: str) -> float | Mapping[str, float]:
    """Read a number, or a JSON object with one for input and one for output."""
    value: float | Mapping[str, float] = _json(text)
    return value


def limit(text: str) -> tuple[str, float]:
    """Read METRIC:MILLISECONDS."""
    name, _, value = text.partition(":")
    number = _number(value)
    if name not in ("ttft", "tpot", "e2el") or number < 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not ttft, tpot or e2el, ':' and a number of ms"
        )
    return name, number


def metric_names(text: str) -> tuple[str, ...]:
    """Read names of metrics; return those named in vLLM's order."""
    names = text.split(",") if text else []
    for name in names:
        if name not in PERCENTILE_METRICS:
            known = ", ".join(PERCENTILE_METRICS)
            raise argparse.ArgumentTypeError(f"unknown metric {name!r}. Known: {known}")
    return tuple(name for name in PERCENTILE_METRICS if name in names)


def percentiles(text: str) -> tuple[float, ...]:
    """Read percentiles between 0 and 100."""
    values = tuple(_number(part) for part in text.split(","))
    if not all(0 <= value <= 100 for value in values):  # noqa: PLR2004
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of percentiles")
    return values


def _json(text: str) -> Any:
    return _read(json.loads, text, "JSON")


def _number(text: str) -> float:
    value: float = _read(float, text, "a number")
    return value


def _read(reader: Callable[[str], Any], text: str, kind: str) -> Any:
    try:
        return reader(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {kind}") from None
