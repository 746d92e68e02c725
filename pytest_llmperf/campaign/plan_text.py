"""How a plan reads in a terminal: in whole, and in the two lines before a session starts."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_llmperf.campaign.plan import CampaignPlan, ServerPlan, SessionPlan, TrafficPlan
from pytest_llmperf.campaign.progress import MINUTE, duration
from pytest_llmperf.campaign.sight import ABSENT, FigureSight, Sight
from pytest_llmperf.engines import ENGINES


def plan_lines(plan: SessionPlan) -> list[str]:
    """Return the whole plan, campaign by campaign, without its totals."""
    lines = [line for campaign in plan.campaigns for line in _campaign(campaign)]
    for alone in plan.own:
        lines.append(f"{alone.server.name}: 1 launch for llm_server{_gpus(alone)}{_takes(alone)}")
        lines.append(f"  {_launch(alone)}; its tests' own time comes on top")
    return lines


def total_line(plan: SessionPlan) -> str:
    """Return what the session costs and how strictly it judges."""
    line = f"{_cost(plan.gpu_seconds, plan.seconds)}, {_count(plan.judged, 'figure')} gated"
    return f"{line}, α {_share(plan.alpha)} each" if plan.judged else line


def sight_line(plan: SessionPlan) -> str | None:
    """Return the range of changes that the session can see; None where it judges nothing."""
    noisy = [f for f in plan.figures if f.noise != "exact"]
    seen = [figure.seen for figure in noisy if figure.seen is not None]
    parts = []
    if seen:
        low, high = _share(min(seen)), _share(max(seen))
        span = low if low == high else f"{low} to {high}"
        parts.append(f"smallest detectable change {span}, by figure")
    if blind := sum(not figure.gateable for figure in noisy):
        parts.append(f"{blind} of {len(noisy)} figures not gateable at their tolerance")
    if firsts := sum(bool(sight.missing) for sight in plan.sights):
        parts.append(f"{_count(firsts, 'first night')}, NO_BASELINE")
    return "; ".join(parts) or None


def _campaign(campaign: CampaignPlan) -> Iterator[str]:
    first = campaign.servers[0]
    pair = len(campaign.servers) > 1
    each = " of each, in turns" if pair else ""
    times = f"{_count(first.plan.launches, 'launch')} × {_count(first.plan.replays, 'replay')}"
    gpus = max(campaign.servers, key=lambda server: server.gpus)
    yield f"{campaign.spec.label}: {times}{each}{_gpus(gpus)}{_takes(campaign)}"
    for server in campaign.servers:
        name = f"{server.server.name}, " if pair else ""
        yield f"  {name}{_launch(server)}"
        for traffic in server.traffics:
            yield f"  {name}{_traffic(traffic)}"
            if traffic.sight is not None:
                yield from (f"    {line}" for line in _sight(traffic.sight, pair=pair))


def _traffic(traffic: TrafficPlan) -> str:
    prompts = _count(traffic.spec.num_prompts, "prompt")
    cost = traffic.replay
    return f"{traffic.spec.name}: {prompts}, {duration(cost.seconds)} a replay ({cost.source})"


def _launch(server: ServerPlan) -> str:
    cost = server.launch
    if not ENGINES[server.server.engine].managed:
        return "no launch: it runs already"
    then = f", then {duration(cost.later)} each" if server.plan.launches > 1 else ""
    return f"launch: {duration(cost.first)}{then} ({cost.source})"


def _sight(sight: Sight, *, pair: bool) -> Iterator[str]:
    absent = [figure.name for figure in sight.figures if figure.note == ABSENT]
    exact = [figure for figure in sight.figures if figure.noise == "exact"]
    noisy = [figure for figure in sight.figures if figure.note != ABSENT and figure not in exact]
    what = "ratios, where check() is called: " if pair else ""
    if sight.missing:
        yield f"{what}no baseline: first night, NO_BASELINE ({sight.missing})"
        then = ", ".join(f"{f.name} {_share(f.seen)}" for f in noisy if f.seen is not None)
        yield f"once it is accepted, the smallest detectable changes are about: {then or 'unknown'}"
        return
    yield f"{what}against {_count(sight.nights, 'accepted night')}:"
    width = max((len(figure.name) for figure in noisy), default=0)
    for figure in noisy:
        yield f"  {figure.name:<{width}}  {_seen(figure)}"
    if exact:
        yield f"  exact, one launch decides: {', '.join(map(_exact, exact))}"
    if absent:
        yield f"  {ABSENT}, so NO_BASELINE where measured: {', '.join(absent)}"


def _seen(figure: FigureSight) -> str:
    if figure.seen is None:
        return f"not gateable: {figure.note}"
    change, tolerance = _share(figure.seen), _share(figure.tolerance)
    noise = f"noise {figure.noise}"
    if figure.gateable:
        return f"smallest detectable change {change}, tolerance {tolerance}, {noise}"
    return f"not gateable: smallest detectable change {change} > tolerance {tolerance}, {noise}"


def _exact(figure: FigureSight) -> str:
    return f"{figure.name} {_share(figure.tolerance)}"


def _gpus(server: ServerPlan) -> str:
    return f", needs {_count(server.gpus, 'GPU')}" if server.gpus else ", needs no GPU"


def _takes(part: CampaignPlan | ServerPlan) -> str:
    return f": {_cost(part.gpu_seconds, part.seconds)}"


def _cost(gpu_seconds: float, seconds: float) -> str:
    return f"{gpu_seconds / MINUTE:,.1f} GPU minutes in {duration(seconds)}"


def _share(share: float) -> str:
    return f"{share * 100:.2g} %" if share < 0.1 else f"{share * 100:.0f} %"  # noqa: PLR2004


def _count(number: int, word: str) -> str:
    ending = "es" if word.endswith("ch") else "s"
    return f"{number} {word}{'' if number == 1 else ending}"
