"""The flags of ``pytest-llmperf bench`` that describe a dataset, and what each passes on."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from pytest_llmperf.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = {"timed_trace": "trace"}
"""Datasets that have another name in ``vllm bench serve`` than here."""


def add_dataset_flags(group: argparse._ArgumentGroup, ratio: Callable[[str], Any]) -> None:
    """Add the flags; ``ratio`` reads a ``--random-range-ratio``."""
    group.add_argument("--dataset-name", default="random")
    group.add_argument("--dataset-path")
    group.add_argument("--disable-shuffle", action="store_true", help="custom: the file's order")
    group.add_argument("--random-input-len", type=int, default=1024)
    group.add_argument("--random-output-len", type=int, default=128)
    group.add_argument("--random-range-ratio", type=ratio, default=0.0)
    group.add_argument("--random-prefix-len", type=int, default=0)
    group.add_argument("--sharegpt-output-len", type=int)
    group.add_argument("--prefix-repetition-prefix-len", type=int, default=256)
    group.add_argument("--prefix-repetition-suffix-len", type=int, default=256)
    group.add_argument("--prefix-repetition-num-prefixes", type=int, default=10)
    group.add_argument("--prefix-repetition-output-len", type=int, default=128)
    group.add_argument(
        "--custom-output-len",
        type=int,
        default=256,
        help="default 256, whatever the file says; -1: as the file says",
    )
    group.add_argument(
        "--skip-chat-template",
        action="store_true",
        help="nothing to do: prompts of custom are sent as they are",
    )
    _add_trace_flags(group)


def _add_trace_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--timed-trace-chunk-hash-size", type=int, default=16)
    group.add_argument("--timed-trace-sec-multiplier", type=float, default=1.0)
    group.add_argument("--timed-trace-label-timestamp", default="timestamp")
    group.add_argument("--timed-trace-label-input-length", default="input_length")
    group.add_argument("--timed-trace-label-output-length", default="output_length")
    group.add_argument("--timed-trace-label-hash-ids", default="hash_ids")
    group.add_argument(
        "--self-timed",
        action=argparse.BooleanOptionalAction,
        help="trace and timed_trace: send at the recorded times (the default for both)",
    )
    group.add_argument("--trace-format", help="trace: mooncake, burstgpt or azure")
    group.add_argument("--trace-speed", type=float, default=1.0, help="trace: 2 is twice as fast")


def dataset_name(options: argparse.Namespace) -> str:
    """Return our name of the dataset asked for."""
    asked: str = options.dataset_name
    return NAMES.get(asked, asked)


def self_timed(options: argparse.Namespace) -> bool:
    """Whether requests are sent at recorded times. Raise UsageError for flags that say both."""
    if dataset_name(options) != "trace":
        if options.self_timed is not None:
            raise UsageError("--self-timed: only the datasets trace and timed_trace have times")
        return False
    if options.self_timed is False:
        return False
    if (
        math.isfinite(options.request_rate)
        or options.burstiness != 1
        or options.ramp_up_strategy is not None
    ):
        raise UsageError(
            "a trace is sent at its own times: for --request-rate, --burstiness or "
            "--ramp-up-strategy add --no-self-timed"
        )
    return True


def dataset_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the named dataset; others have a path at most."""
    name = options.dataset_name
    if options.disable_shuffle and name != "custom":
        raise UsageError("--disable-shuffle: only the dataset custom can keep the file's order")
    if name == "random":
        return {
            "input_len": options.random_input_len,
            "output_len": options.random_output_len,
            "range_ratio": options.random_range_ratio,
            "prefix_len": options.random_prefix_len,
        }
    if name == "prefix_repetition":
        return {
            "prefix_len": options.prefix_repetition_prefix_len,
            "suffix_len": options.prefix_repetition_suffix_len,
            "num_prefixes": options.prefix_repetition_num_prefixes,
            "output_len": options.prefix_repetition_output_len,
        }
    own = {} if options.dataset_path is None else {"path": options.dataset_path}
    if name == "sharegpt" and options.sharegpt_output_len is not None:
        own["output_len"] = options.sharegpt_output_len
    if name in ("custom", *NAMES, *NAMES.values()) and not own:
        raise UsageError(f"--dataset-name {name} needs a file: --dataset-path")
    if name == "custom":
        length = options.custom_output_len
        own |= {
            "output_len": None if length == -1 else length,
            "shuffle": not options.disable_shuffle,
        }
    return own | _trace_options(options)


def _trace_options(options: argparse.Namespace) -> dict[str, Any]:
    if options.dataset_name == "trace":
        return {"format": options.trace_format, "speed": options.trace_speed}
    if options.dataset_name == "timed_trace":
        return {
            "format": "mooncake",
            "columns": {
                "timestamp": options.timed_trace_label_timestamp,
                "input_tokens": options.timed_trace_label_input_length,
                "output_tokens": options.timed_trace_label_output_length,
                "hash_ids": options.timed_trace_label_hash_ids,
            },
            "unit_s": options.timed_trace_sec_multiplier,
            "block_tokens": options.timed_trace_chunk_hash_size,
        }
    return {}
