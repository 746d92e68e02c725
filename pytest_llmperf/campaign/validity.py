"""Can this replay be trusted? The first reason why not, or None.

The client's limits are wide: the kernel stamps what arrives, so a loop that is late by less
than an ITL costs nothing. Past them the figures would be the client's, not the server's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from pytest_llmperf.model.record import Replay
from pytest_llmperf.model.traffic import TrafficSpec

SEND_LAG_P99_MS = 20.0
"""A request written this much after its due time was not the schedule that was asked for."""
LOOP_LAG_MS = 250.0
CPU_SHARE = 0.9
"""A worker this busy has no time left to be on time with."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why a replay cannot be trusted. As a text it is its reason.

    ``kind``: ``requests`` failed, ``tokens`` not as asked, ``client`` too slow, ``server``
    not the same throughout, or ``figures`` that could not be computed. Of several the one that
    says most about the server; so ``client`` means that nothing else is wrong.
    """

    kind: Literal["requests", "tokens", "client", "server", "figures"]
    reason: str

    def __str__(self) -> str:
        return self.reason


def invalid_reason(replay: Replay, spec: TrafficSpec) -> Invalid | None:
    """Return why ``replay`` cannot be trusted, or None."""
    return _failed(replay, spec) or _tokens_not_as_asked(replay, spec) or _client_bound(replay)


def _failed(replay: Replay, spec: TrafficSpec) -> Invalid | None:
    errors = [record.error for record in replay.records if record.error]
    allowed = spec.max_error_rate * len(replay.records)
    if len(errors) <= allowed:
        return None
    common = "; ".join(f"{count} × {text}" for text, count in Counter(errors).most_common(3))
    limit = f"max_error_rate allows {allowed:.0f}" if spec.max_error_rate else "none may"
    return Invalid(
        "requests", f"{len(errors)} of {len(replay.records)} requests failed ({limit}): {common}"
    )


def _tokens_not_as_asked(replay: Replay, spec: TrafficSpec) -> Invalid | None:
    if not spec.ignore_eos:
        return None
    for record in replay.records:
        if record.error is None and record.output_tokens != record.asked_tokens:
            return Invalid(
                "tokens",
                f"request {record.index} brought {record.output_tokens} output tokens where "
                f"{record.asked_tokens} were forced: the server does not honour ignore_eos",
            )
    return None


def _client_bound(replay: Replay) -> Invalid | None:
    health = replay.health
    # Below a second, start and end weigh more than the load does.
    share = health.cpu_s / health.wall_s if health.wall_s > 1 else 0.0
    limits = (
        ("wrote requests late, p99", health.send_lag_p99_ns / 1e6, SEND_LAG_P99_MS, "ms"),
        ("looked away from its sockets for", health.loop_lag_max_ns / 1e6, LOOP_LAG_MS, "ms"),
        ("used of one core", share * 100, CPU_SHARE * 100, "%"),
    )
    for what, value, limit, unit in limits:
        if value > limit:
            return Invalid(
                "client",
                f"client-bound: the load process {what} {value:.1f} {unit} (limit {limit:g} "
                f"{unit}). Free this host's cores, or lower the rate or concurrency",
            )
    return None
