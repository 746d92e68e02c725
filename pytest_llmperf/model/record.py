"""What a replay leaves behind: raw clock readings, token counts, errors. Nothing derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

CountedBy = Literal["usage", "chunk"]
Counters = Mapping[str, float]
"""A server's ``/metrics``: series of one name summed, ``vllm:prompt_tokens_total`` → value."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request as the load process saw it. All times: CLOCK_MONOTONIC nanoseconds.

    ``chunk_ns`` and ``chunk_tokens`` have one entry for each event that carried output: when
    it arrived and how many tokens it brought. ``done_ns`` is the end of the stream.
    ``prompt_tokens``, ``cached_tokens`` and ``output_tokens`` are the server's own counts.
    ``error`` is None for a request that brought all it was asked for.
    """

    index: int
    due_ns: int
    sent_ns: int | None
    chunk_ns: Sequence[int]
    chunk_tokens: Sequence[int]
    done_ns: int | None
    asked_tokens: int
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    counted_by: CountedBy = "usage"
    http_status: int | None = None
    finish_reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ClientHealth:
    """What the load process knows of itself.

    ``send_lag_ns``: how late each request that nothing held back was written, against its
    due time (of several due at one instant, against the one before). ``cpu_s`` of CPU in
    ``wall_s`` seconds; ``loop_lag_ns``: the longest time that the loop took between two looks
    at its sockets. ``start_s``: process start to ready.
    """

    send_lag_p99_ns: int
    send_lag_max_ns: int
    loop_lag_max_ns: int
    cpu_s: float
    wall_s: float
    start_s: float
    reconnects: int = 0


@dataclass(frozen=True)
class Replay:
    """One traffic sent once. ``counters``: what the server's own counters rose by."""

    traffic: str
    digest: str
    records: tuple[RequestRecord, ...]
    offered_rate: float | None
    max_concurrency: int | None
    clock: Literal["kernel", "process"]
    health: ClientHealth
    started_at: str
    counters: Counters | None = None
