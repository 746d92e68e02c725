"""What a launch and a replay will cost: as last time, or assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmperf.engines import ENGINES

if TYPE_CHECKING:
    from pytest_llmperf.model.baseline import Baseline
    from pytest_llmperf.model.machine import Machine
    from pytest_llmperf.model.server import ServerSpec
    from pytest_llmperf.model.traffic import TrafficSpec
    from pytest_llmperf.store.costs import PastRuns

FIRST_LAUNCH_S = 150.0
LATER_LAUNCH_S = 75.0
"""Seconds to be ready: Qwen3-14B on an H200 took 162 at first, compiling, then 60 to 75."""
SIMULATED_LAUNCH_S = 2.0
TOKEN_S = 0.02
"""Seconds a token of one stream, between an H200's 9 ms and an L40S's 35 ms for a 14B model."""
OUTPUT_TOKENS = 200
"""Of a request whose recipe does not say: ShareGPT's mean."""
AT_ONCE = 256
"""Requests that a server works on together where the traffic sets no limit: vLLM's default."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds, and where they are from: ``measured, run 20261130-105554-9eea``, ``assumed``."""

    seconds: float
    source: str = "assumed"


@dataclass(frozen=True, slots=True)
class LaunchCost:
    """The first launch of a session, which may compile, and each later one."""

    first: float
    later: float
    source: str = "assumed"


def launch_cost(
    server: ServerSpec, machine: Machine | None, past: PastRuns, baseline: Baseline | None
) -> LaunchCost:
    """Return what this server's launches cost, by its newest run or its last accepted night."""
    engine = ENGINES[server.engine]
    if not engine.managed:
        return LaunchCost(0.0, 0.0, "it runs already")
    took = past.startups(server, machine)
    if took is not None:
        return _launches(took.seconds, f"measured, run {took.run}", server)
    if baseline is not None and (rows := baseline.nights[-1].figures.get("startup_s")):
        source = f"measured, accepted night {baseline.nights[-1].date}"
        return _launches(tuple(row[0] for row in rows), source, server)
    return LaunchCost(*_assumed_launches(server))


def _assumed_launches(server: ServerSpec) -> tuple[float, float]:
    if ENGINES[server.engine].simulated:
        return SIMULATED_LAUNCH_S, SIMULATED_LAUNCH_S
    return FIRST_LAUNCH_S, LATER_LAUNCH_S


def _launches(seconds: tuple[float, ...], source: str, server: ServerSpec) -> LaunchCost:
    first, later = seconds[0], seconds[1:]
    if later:
        return LaunchCost(first, sum(later) / len(later), source)
    # One launch may have compiled; the next ones then find it done.
    assumed = min(first, _assumed_launches(server)[1])
    return LaunchCost(first, assumed, f"{source}; later ones assumed")


def replay_cost(
    server: ServerSpec,
    traffic: TrafficSpec,
    machine: Machine | None,
    past: PastRuns,
    baseline: Baseline | None,
) -> Cost:
    """Return what one replay costs, by the newest run, the last accepted night or the recipe."""
    took = past.replays(server, traffic, machine)
    if took is not None:
        return Cost(sum(took.seconds) / len(took.seconds), f"measured, run {took.run}")
    rows = baseline.nights[-1].figures.get("request_rate") if baseline is not None else None
    rates = [rate for row in rows or () for rate in row if rate > 0]
    if baseline is not None and rates:
        rate = sum(rates) / len(rates)
        source = f"measured, accepted night {baseline.nights[-1].date}"
        return Cost(traffic.num_prompts / rate, source)
    return Cost(assumed_replay(traffic))


def assumed_replay(traffic: TrafficSpec) -> float:
    """Return seconds from the recipe alone: its arrivals, or its output if that takes longer."""
    given = dict(traffic.dataset_options).get("output_len")
    tokens = given if isinstance(given, int) else OUTPUT_TOKENS
    at_once = min(traffic.max_concurrency or AT_ONCE, traffic.num_prompts)
    waves = math.ceil(traffic.num_prompts / at_once)
    return max(traffic.num_prompts / traffic.request_rate, waves * tokens * TOKEN_S)


def warm_up_share(traffic: TrafficSpec) -> float:
    """Return what part of a replay the warm-up before it is."""
    return min(traffic.warmups / traffic.num_prompts, 1.0)
