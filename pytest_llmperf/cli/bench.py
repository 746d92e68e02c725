"""``pytest-llmperf bench``: one replay against a URL, with the flags of ``vllm bench serve``."""

from __future__ import annotations

import sys
import tempfile
import uuid
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmperf.cli._bench_flags import add_flags, target_of, traffic_spec

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pytest_llmperf.model.launch import Target
    from pytest_llmperf.model.record import Counters, Replay
    from pytest_llmperf.model.traffic import Tokenizer, Traffic

EPILOG = """\
Requests that fail make the exit status 1, as does a client that was too slow to be believed.
Every run starts from an empty prefix cache of a vLLM backend (a fresh cache_salt). The key is
taken from OPENAI_API_KEY. The result file has vLLM's keys; ours lie under "llmperf"."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the call."""
    parser = subparsers.add_parser(
        "bench",
        help="one replay against a URL, with the flags of `vllm bench serve`",
        epilog=EPILOG,
    )
    add_flags(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure, print, save; return 0, or 1 where the figures cannot be trusted."""
    from pytest_llmperf.campaign.validity import invalid_reason
    from pytest_llmperf.cli._bench_result import require_folder, result_of, save
    from pytest_llmperf.cli._bench_table import table
    from pytest_llmperf.replay.build import build_traffic

    spec = traffic_spec(options)
    if options.save_result or options.append_result:
        require_folder(options)
    target = _with_model(target_of(options))
    model = options.model or target.model
    traffic = build_traffic(spec, _tokenizer(options, target, model))
    done = _measure(traffic, target, options)
    date = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    result = result_of(options, traffic, done, model, date)
    print(table(result, options, done))
    if options.save_result or options.append_result:
        print(f"Result: {save(result, options)}")
    reason = invalid_reason(done, spec)
    if reason is not None:
        print(f"pytest-llmperf bench: INVALID: {reason}", file=sys.stderr)
    return 0 if reason is None else 1


def _with_model(target: Target) -> Target:
    if target.model:
        return target
    from pytest_llmperf.errors import UsageError
    from pytest_llmperf.http import models

    known = models(target)
    if not known:
        raise UsageError(f"{target.base_url} lists no model; give its name with --model")
    return replace(target, model=str(known[0]["id"]))


def _tokenizer(options: argparse.Namespace, target: Target, model: str) -> Tokenizer:
    """Return the model's own tokenizer, else what the server counts, else an estimate."""
    from pytest_llmperf.http import server_tokenizer
    from pytest_llmperf.tokens import Estimate, tokenizer_for

    own = tokenizer_for(options.tokenizer or model)
    if options.tokenizer or not isinstance(own, Estimate):
        return own
    return server_tokenizer(target) or own


def _measure(traffic: Traffic, target: Target, options: argparse.Namespace) -> Replay:
    from pytest_llmperf.launch.counters import risen
    from pytest_llmperf.replay import replay, warm_up

    salt = uuid.uuid4().hex if options.backend.startswith("vllm") else None
    stall_s: float = options.stall_timeout
    with tempfile.TemporaryDirectory(prefix="llmperf-bench-") as name:
        work = Path(name)
        warm_up(traffic, target, work=work, salt=salt, stall_timeout=stall_s)
        before = _counters(target)
        done = replay(
            traffic, target, work=work, salt=salt, stall_timeout=stall_s, on_progress=_progress()
        )
        after = _counters(target)
    if before is None or after is None:
        return done
    return replace(done, counters=risen(before, after))


def _counters(target: Target) -> Counters | None:
    """Return the server's counters; None where it has none, or is of another kind."""
    from pytest_llmperf.errors import ServerError
    from pytest_llmperf.http import metrics
    from pytest_llmperf.launch.counters import counters_from

    try:
        text = metrics(target)
        return None if text is None else counters_from(text)
    except (ServerError, ValueError):
        return None


def _progress() -> Callable[[int, int], None] | None:
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\n" if done == total else "\r"
        print(f"{done}/{total} requests", end=end, file=sys.stderr, flush=True)

    return show
