"""From the ``llmperf`` marker to one test a (server, traffic)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pytest_llmperf.campaign import Gate
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import SpecError, UsageError
from pytest_llmperf.metrics import figure, gated_figures
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import TrafficSpec
from pytest_llmperf.plugin import options

ALLOWED = ("servers", "traffic", "against", "gate")
NEEDS_TRAFFIC = {"llm_verdict", "llm_comparison", "llm_campaign"}


@dataclass(frozen=True)
class Case:
    """What one test is about. ``servers``: one, or the pair (reference, candidate)."""

    servers: tuple[ServerSpec, ...]
    traffic: TrafficSpec | None
    gate: Gate

    @property
    def server(self) -> ServerSpec:
        """The server that is judged."""
        return self.servers[-1]

    @property
    def traffic_name(self) -> str:
        """The traffic's name; a test that judges always has one."""
        return self.traffic.name if self.traffic else ""

    @property
    def id(self) -> str:
        """``server/traffic``, as it stands in the test's id."""
        return f"{self.server.name}/{self.traffic.name}" if self.traffic else self.server.name


def case_of(item: pytest.Item) -> Case | None:
    """Return what a test is about, None for one that is not ours."""
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("llm_case") if callspec else None
    return case if isinstance(case, Case) else None


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrise a test that uses our fixtures; raise CollectError for a marker that cannot be."""
    marker = metafunc.definition.get_closest_marker("llmperf")
    try:
        if marker is None:
            raise SpecError("uses a llm_… fixture but has no @pytest.mark.llmperf(servers=[...])")
        cases = _cases(marker, metafunc)
    except UsageError as error:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None
    metafunc.parametrize("llm_case", cases, indirect=True, ids=[case.id for case in cases])


def _cases(marker: pytest.Mark, metafunc: pytest.Metafunc) -> list[Case]:
    if marker.args or (unknown := set(marker.kwargs) - set(ALLOWED)):
        given = "positional arguments" if marker.args else f"{min(unknown)!r}"
        raise SpecError(f"the llmperf marker does not take {given}; it takes {', '.join(ALLOWED)}")
    words = marker.kwargs
    servers = _several("servers", words.get("servers"), ServerSpec)
    traffic = _several("traffic", words.get("traffic", ()), TrafficSpec)
    against = _several("against", words.get("against") or (), ServerSpec)
    fixtures = set(metafunc.fixturenames)
    if not traffic and fixtures & NEEDS_TRAFFIC:
        raise SpecError("the llmperf marker names no traffic; give traffic=[...]")
    if "llm_comparison" in fixtures and len(against) != 1:
        raise SpecError("llm_comparison needs one server to compare with: against=SERVER")
    if against and against[0].name in {server.name for server in servers}:
        raise SpecError(f"against= is {against[0].name!r}, which servers= has too: two are needed")
    if "llm_server" in fixtures and fixtures & NEEDS_TRAFFIC:
        raise SpecError(
            "a test uses llm_server, or what a campaign measured, not both: a campaign starts and "
            "stops its servers itself"
        )
    if against and "llm_verdict" in fixtures:
        raise SpecError("against= makes a comparison: use llm_comparison, not llm_verdict")
    chosen = _gate(words.get("gate"))
    reference = [_adapted(server, metafunc.config) for server in against]
    groups = [(*reference, _adapted(server, metafunc.config)) for server in servers]
    return [
        Case(group, _cut(one, metafunc.config), chosen or _default_gate(group))
        for group in groups
        for one in (traffic or [None])
    ]


def _several(name: str, given: Any, kind: type[ServerSpec | TrafficSpec]) -> list[Any]:
    values = [given] if isinstance(given, kind) else given
    if values is None or isinstance(values, str) or not isinstance(values, Iterable):
        raise SpecError(f"the llmperf marker's {name}= is {given!r}, not a list of {kind.__name__}")
    values = list(values)
    for value in values:
        if not isinstance(value, kind):
            raise SpecError(
                f"the llmperf marker's {name}= holds a {type(value).__name__}, not a {kind.__name__}"
            )
        if values.count(value) > 1:
            raise SpecError(f"the llmperf marker's {name}= has {value.name!r} twice; name it once")
    if name == "servers" and not values:
        raise SpecError("the llmperf marker's servers= is empty")
    return values


def _gate(given: Any) -> Gate | None:
    """Return what the marker's ``gate=`` chooses, None where it does not say."""
    if given is None:
        return None
    if isinstance(given, str):
        given = [given]
    tolerances = dict(given) if isinstance(given, Mapping) else {}
    for name, tolerance in tolerances.items():
        if not isinstance(tolerance, int | float) or not 0 < tolerance < 1:
            raise SpecError(f"gate: tolerance of {name} is {tolerance!r}, not a share such as 0.05")
    return Gate(tuple(figure(name) for name in given), tolerances, chosen=True)


def _default_gate(servers: tuple[ServerSpec, ...]) -> Gate:
    """Gate what these servers can have: a figure that never comes costs the others power."""
    known = [server for server in servers if ENGINES[server.engine].managed]
    shared = [gated_figures(server.arguments) for server in known] or [gated_figures()]
    return Gate(tuple(of for of in shared[0] if all(of in figures for figures in shared)))


def _adapted(server: ServerSpec, config: pytest.Config) -> ServerSpec:
    """Return the server as the options want it: engine and arguments."""
    engine = options.value(config, "engine") or server.engine
    _ = ENGINES[engine]
    extra = options.server_arguments(config)
    return server.with_engine(engine).with_arguments(extra)


def _cut(traffic: TrafficSpec | None, config: pytest.Config) -> TrafficSpec | None:
    """Return the traffic cut to ``--llmperf-prompts``, if that is less than it has."""
    most = options.value(config, "prompts")
    if traffic is None or most is None or most >= traffic.num_prompts:
        return traffic
    return replace(traffic, num_prompts=most)
