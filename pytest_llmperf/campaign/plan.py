"""The plan of a session, before anything starts: what it costs and what it will be able to see.

No traffic is built for it, since that may read a large dataset: recipes are compared, and times
are those of earlier runs, or assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from pytest_llmperf.campaign.cost import Cost, LaunchCost, launch_cost, replay_cost, warm_up_share
from pytest_llmperf.campaign.judge import Gate
from pytest_llmperf.campaign.sight import ABSENT, FigureSight, Sight, sight_of
from pytest_llmperf.campaign.spec import CampaignSpec, Plan
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import BaselineError
from pytest_llmperf.model.baseline import Baseline
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import TrafficSpec
from pytest_llmperf.model.verdict import Noise
from pytest_llmperf.store.baselines import BaselineStore, NoBaseline
from pytest_llmperf.store.costs import PastRuns
from pytest_llmperf.store.recipes import stored_baseline


@dataclass(frozen=True)
class Wish:
    """What the selected tests want of one campaign.

    ``gates``: traffic name → what tests judge against the baseline there, if any does.
    """

    spec: CampaignSpec
    gates: Mapping[str, Gate]


@dataclass(frozen=True)
class Known:
    """What a plan is made from. ``machine``: of a server; None where nobody knows it yet."""

    past: PastRuns
    store: BaselineStore
    machine: Callable[[ServerSpec], Machine | None]


@dataclass(frozen=True)
class TrafficPlan:
    """One traffic on one server. ``sight`` is there where it, or its ratio, is judged by nights."""

    spec: TrafficSpec
    replay: Cost
    sight: Sight | None = None

    def seconds(self, replays: int) -> float:
        """Return what one launch spends on it, warm-up included."""
        return self.replay.seconds * (replays + warm_up_share(self.spec))


@dataclass(frozen=True)
class ServerPlan:
    """One server's part of a campaign."""

    server: ServerSpec
    launch: LaunchCost
    plan: Plan
    traffics: tuple[TrafficPlan, ...]

    @property
    def gpus(self) -> int:
        """GPUs that it occupies here; an engine that needs none occupies none."""
        return self.server.gpus if ENGINES[self.server.engine].uses_gpu else 0

    @property
    def seconds(self) -> float:
        """Seconds for all its launches and replays."""
        each = sum(traffic.seconds(self.plan.replays) for traffic in self.traffics)
        later = self.launch.later * (self.plan.launches - 1)
        return self.launch.first + later + each * self.plan.launches

    @property
    def gpu_seconds(self) -> float:
        """Wall-clock seconds × GPUs."""
        return self.seconds * self.gpus


@dataclass(frozen=True)
class CampaignPlan:
    """One campaign: a server, or a pair (reference, candidate) in turns."""

    spec: CampaignSpec
    servers: tuple[ServerPlan, ...]

    @property
    def seconds(self) -> float:
        """Wall-clock seconds."""
        return sum(server.seconds for server in self.servers)

    @property
    def gpu_seconds(self) -> float:
        """Wall-clock seconds × GPUs."""
        return sum(server.gpu_seconds for server in self.servers)


@dataclass(frozen=True)
class SessionPlan:
    """All campaigns, and the servers started for tests of one's own.

    ``judged``: figures that share the session's false alarms, ``alpha`` each.
    """

    campaigns: tuple[CampaignPlan, ...]
    own: tuple[ServerPlan, ...]
    judged: int
    alpha: float

    @property
    def seconds(self) -> float:
        """Wall-clock seconds, one campaign after another."""
        campaigns = sum(campaign.seconds for campaign in self.campaigns)
        return campaigns + sum(server.seconds for server in self.own)

    @property
    def gpu_seconds(self) -> float:
        """Wall-clock seconds × GPUs."""
        campaigns = sum(campaign.gpu_seconds for campaign in self.campaigns)
        return campaigns + sum(server.gpu_seconds for server in self.own)

    @property
    def sights(self) -> tuple[Sight, ...]:
        """What is judged against nights, a traffic each."""
        servers = (server for campaign in self.campaigns for server in campaign.servers)
        traffics = (traffic for server in servers for traffic in server.traffics)
        return tuple(traffic.sight for traffic in traffics if traffic.sight is not None)

    @property
    def figures(self) -> tuple[FigureSight, ...]:
        """Every figure that a baseline has."""
        stored = (sight for sight in self.sights if not sight.missing)
        return tuple(f for sight in stored for f in sight.figures if f.note != ABSENT)


def plan_session(
    wishes: Iterable[Wish],
    own: Iterable[ServerSpec],
    plan: Plan,
    known: Known,
    *,
    judged: int,
    alpha: float,
) -> SessionPlan:
    """Return the plan. ``own``: servers started for ``llm_server``, each once."""
    campaigns = tuple(_campaign(wish, plan, known, alpha) for wish in wishes)
    once = Plan(1, 1)
    alone = tuple(ServerPlan(s, _launch(s, known, None), once, ()) for s in dict.fromkeys(own))
    return SessionPlan(campaigns, alone, judged, alpha)


def _campaign(wish: Wish, plan: Plan, known: Known, alpha: float) -> CampaignPlan:
    spec = wish.spec
    managed = all(ENGINES[server.engine].managed for server in spec.servers)
    plan = plan if managed else replace(plan, launches=1)
    servers = [_server(server, spec, plan, known) for server in spec.servers]
    traffics = (
        _with_sight(traffic, wish, replace(gate, alpha=alpha), plan, known)
        if (gate := wish.gates.get(traffic.spec.name))
        else traffic
        for traffic in servers[-1].traffics
    )
    return CampaignPlan(spec, (*servers[:-1], replace(servers[-1], traffics=tuple(traffics))))


def _server(server: ServerSpec, spec: CampaignSpec, plan: Plan, known: Known) -> ServerPlan:
    stored = {traffic: _stored((server,), traffic, known) for traffic in spec.traffics}
    nights = {t: found if isinstance(found, Baseline) else None for t, found in stored.items()}
    machine = known.machine(server)
    costs = {
        traffic: replay_cost(server, traffic, machine, known.past, baseline)
        for traffic, baseline in nights.items()
    }
    launch = _launch(server, known, next(filter(None, nights.values()), None))
    return ServerPlan(
        server, launch, plan, tuple(TrafficPlan(t, cost) for t, cost in costs.items())
    )


def _with_sight(
    traffic: TrafficPlan, wish: Wish, gate: Gate, plan: Plan, known: Known
) -> TrafficPlan:
    servers = wish.spec.servers
    machine = known.machine(servers[-1])

    def noise(name: str) -> Noise | None:
        if machine is None:
            return None
        return known.store.noise(machine, name, ratios=len(servers) > 1)

    stored = _stored(servers, traffic.spec, known)
    return replace(traffic, sight=sight_of(gate, stored, plan.launches, noise))


def _launch(server: ServerSpec, known: Known, baseline: Baseline | None) -> LaunchCost:
    return launch_cost(server, known.machine(server), known.past, baseline)


def _stored(
    servers: tuple[ServerSpec, ...], traffic: TrafficSpec, known: Known
) -> Baseline | NoBaseline:
    """Return the baseline of a server, or of a pair's ratios."""
    machine = known.machine(servers[-1])
    if machine is None:
        return NoBaseline("the machine is not known")
    names = [server.name for server in servers]
    against = names[0] if len(names) > 1 else None
    try:
        return stored_baseline(known.store, machine, names[-1], traffic, against=against)
    except BaselineError as error:
        return NoBaseline(str(error))
