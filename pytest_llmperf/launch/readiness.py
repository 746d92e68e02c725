"""Readiness: ``/health`` and one answered request, and what the server tells over HTTP."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_llmperf import http
from pytest_llmperf.errors import ServerError, UsageError
from pytest_llmperf.launch.counters import labels_of
from pytest_llmperf.model.launch import LaunchFacts, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FIRST_LOOK_S = 0.05
SLOWEST_LOOK_S = 0.25
HEALTH_TIMEOUT_S = 2.0
LONGEST_ANSWER_S = 120.0
"""Seconds for the first token: kernels may be compiled for it."""


class NotReadyError(ServerError):
    """The time was up. The message says what the server last did."""


@dataclass(frozen=True)
class Wait:
    """How to wait. ``pause`` sleeps so long or until something happens, and may raise."""

    deadline: float
    pause: Callable[[float], None]
    health_needed: bool = True


def wait_until_ready(target: Target, wanted: Sequence[str], wait: Wait) -> Target:
    """Return the target with its model's id once the server has generated a token.

    ``wanted`` are ids that the model may be served under, best first; none: whichever comes
    first (and the target's own where the server has no list). Raise NotReadyError at the
    deadline, ServerError for an answer that waiting does not change, UsageError where another
    model is served, and whatever ``pause`` raises.
    """
    _wait_for_health(target, wait)
    served = target
    pause, last = FIRST_LOOK_S, "its /health answers"
    while (rest := wait.deadline - time.monotonic()) > 0:
        try:
            served = replace(target, model=_model_id(target, wanted))
            http.complete(served, timeout=min(rest, LONGEST_ANSWER_S))
        except (http.NoAnswerError, http.BusyError) as error:
            last = str(error)
        else:
            return served
        wait.pause(min(pause, rest))
        pause = min(pause * 1.5, SLOWEST_LOOK_S)
    raise NotReadyError(f"but no request was answered: {last}")


def _wait_for_health(target: Target, wait: Wait) -> None:
    pause, last = FIRST_LOOK_S, "nothing listens on its port"
    while (rest := wait.deadline - time.monotonic()) > 0:
        status = http.health(target, min(rest, HEALTH_TIMEOUT_S))
        if status == http.OK or (status is not None and not wait.health_needed):
            return
        if status is not None:
            last = f"its /health answers {status}"
        wait.pause(min(pause, rest))
        pause = min(pause * 1.2, SLOWEST_LOOK_S)
    raise NotReadyError(last)


def _model_id(target: Target, wanted: Sequence[str]) -> str:
    """Return the id to ask for: the first wanted one that is served."""
    served = [str(entry["id"]) for entry in http.models(target)]
    if not served:
        if name := next(iter(wanted), target.model):
            return name
        raise UsageError(
            f"{target.base_url} has no list of models (/v1/models): name the model in the suite"
        )
    for name in wanted or served:
        if name in served:
            return name
    raise UsageError(
        f"{target.base_url} serves {', '.join(map(repr, served))}, not {wanted[0]!r}: name the "
        f"model as it is served, or say which it is with --llmperf-model '{wanted[0]}={served[0]}'"
    )


def complete_facts(facts: LaunchFacts, target: Target) -> LaunchFacts:
    """Fill in what the log did not say and the server tells over HTTP.

    The version (``/version``), the longest context (``/v1/models``), KV tokens and maximum
    concurrency (``vllm:cache_config_info`` of ``/metrics``, summed over engines).
    """
    told = LaunchFacts(
        engine_version=_version(target),
        max_model_len=_longest_context(target),
        **_cache_config(target),
    )
    missing = {
        name: value
        for name, value in vars(told).items()
        if getattr(facts, name) is None and value is not None
    }
    return replace(facts, **missing)


def _version(target: Target) -> str | None:
    try:
        body = http.get(target, "/version").json()
    except http.NoAnswerError:
        return None
    version = body.get("version") if isinstance(body, dict) else None
    return str(version) if version else None


def _longest_context(target: Target) -> int | None:
    try:
        entries = http.models(target)
    except ServerError:
        return None
    longest = entries[0].get("max_model_len") if entries else None
    return longest if isinstance(longest, int) else None


def _cache_config(target: Target) -> dict[str, Any]:
    try:
        text = http.metrics(target)
        engines = labels_of(text, "vllm:cache_config_info") if text else []
    except (http.NoAnswerError, ValueError):
        return {}
    tokens = [_number(labels.get("kv_cache_size_tokens")) for labels in engines]
    concurrency = [_number(labels.get("kv_cache_max_concurrency")) for labels in engines]
    return {
        "kv_tokens": int(sum(tokens)) or None,
        "max_concurrency": round(sum(concurrency), 2) or None,
    }


def _number(text: str | None) -> float:
    """Return what a label says, 0 for ``None`` and the like."""
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
