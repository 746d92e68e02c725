"""Our figures against what a server really sent. Tolerances bear a noisy machine."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import psutil

from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.replay import replay

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_llmperf.model.record import Replay

Milliseconds = np.ndarray[Any, np.dtype[np.float64]]


def closed_loop(streams: int, requests: int, tokens: int, endpoint: str = "completions") -> Traffic:
    spec = TrafficSpec(
        "truth", "literal", num_prompts=requests, max_concurrency=streams, endpoint=endpoint
    )
    prompt = Prompt("count", 1, tokens)
    return Traffic(spec, tuple(Request(index, 0, prompt) for index in range(requests)))


def ttfts(replayed: Replay) -> Milliseconds:
    return np.array([r.chunk_ns[0] - (r.sent_ns or 0) for r in replayed.records]) / 1e6


def itls(replayed: Replay) -> Milliseconds:
    return np.concatenate([np.diff(np.asarray(r.chunk_ns)) for r in replayed.records]) / 1e6


def test_ttft_and_itl_are_what_the_server_sent(truthd: Any, tmp_path: Path) -> None:
    """5,000 events a second: every token counted, and the times those of truthd's clock.

    TTFT may be larger by the time that requests lay unread before truthd, never smaller.
    """
    with truthd(0.05, 0.02) as server:
        server.get("/reset")
        replayed = replay(closed_loop(100, 200, 100), server.target, work=tmp_path, salt=None)
        truth = server.stats()
    assert {record.error for record in replayed.records} == {None}
    assert sum(sum(record.chunk_tokens) for record in replayed.records) == 200 * 100
    assert {record.output_tokens for record in replayed.records} == {100}
    assert {record.counted_by for record in replayed.records} == {"usage"}
    assert replayed.clock == "kernel"
    assert (truth["ndone"], truth["naborted"], truth["nreq"]) == (200, 0, 200)
    ours = itls(replayed)
    assert abs(np.percentile(ours, 50) - truth["itl"]["p50"]) < 0.5
    assert abs(np.percentile(ours, 99) - truth["itl"]["p99"]) < 2.0
    assert ttfts(replayed).min() > 49.9
    assert -0.5 < np.percentile(ttfts(replayed), 50) - truth["ttft"]["p50"] < 10.0


def test_on_chat_the_times_are_the_same(truthd: Any, tmp_path: Path) -> None:
    """The chat endpoint's events are other bytes and the same clock."""
    with truthd(0.03, 0.01) as server:
        server.get("/reset")
        made = closed_loop(10, 20, 50, endpoint="chat")
        replayed = replay(made, server.target, work=tmp_path, salt=None)
        truth = server.stats()
    assert {record.error for record in replayed.records} == {None}
    assert sum(sum(record.chunk_tokens) for record in replayed.records) == 20 * 50
    assert abs(np.percentile(itls(replayed), 50) - truth["itl"]["p50"]) < 0.5


def test_a_process_without_a_core_still_knows_when_tokens_came(truthd: Any, tmp_path: Path) -> None:
    """The load process is stopped for 150 ms: its ITLs of 200 ms stay 200, and it says so.

    20 streams begin 10 ms apart, so some token comes early in any pause.
    """

    def stop_and_go() -> None:
        for child in psutil.Process().children():
            with suppress(psutil.Error):  # it ended while one looks
                if "pytest_llmperf.replay.worker" in child.cmdline():
                    child.suspend()
                    time.sleep(0.15)
                    child.resume()

    spec = TrafficSpec("truth", "literal", num_prompts=20)
    prompt = Prompt("count", 1, 12)
    made = Traffic(spec, tuple(Request(i, i * 10_000_000, prompt) for i in range(20)))
    with truthd(0.05, 0.2) as server:
        server.get("/reset")
        replayed = replay(made, server.target, work=tmp_path, salt=None, watch=stop_and_go)
        truth = server.stats()
    ours = itls(replayed)
    assert {record.error for record in replayed.records} == {None}
    assert abs(ours.max() - truth["itl"]["max"]) < 20.0
    assert abs(ours.min() - truth["itl"]["min"]) < 20.0
    assert replayed.health.loop_lag_max_ns > 100_000_000


def test_a_plain_client_sees_the_same_at_low_load(truthd: Any, tmp_path: Path) -> None:
    """One stream, httpx beside the hot path: both see the same TTFT and ITL."""
    body = {
        "model": "m",
        "prompt": "count",
        "max_tokens": 20,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    first: list[float] = []
    gaps: list[float] = []
    with truthd(0.05, 0.02) as server:
        with httpx.Client(base_url=server.target.base_url) as client:
            for _ in range(4):
                sent = time.perf_counter()
                with client.stream("POST", "/v1/completions", json=body) as answer:
                    lines = (line for line in answer.iter_lines() if '"text"' in line)
                    times = [time.perf_counter() for _ in lines]
                first.append((times[0] - sent) * 1e3)
                gaps += [(b - a) * 1e3 for a, b in pairwise(times)]
        replayed = replay(closed_loop(1, 4, 20), server.target, work=tmp_path, salt=None)
    assert len(gaps) == len(itls(replayed)) == 4 * 19
    assert abs(median(gaps) - np.median(itls(replayed))) < 2.0
    assert abs(median(first) - np.median(ttfts(replayed))) < 10.0
