"""What the collected tests want: campaigns, servers of their own, figures judged."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from pytest_llmperf import gpu
from pytest_llmperf.arrivals import ARRIVALS
from pytest_llmperf.campaign import Gate
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import SpecError, UnknownNameError
from pytest_llmperf.gate import EXACT_TOLERANCE, session_alpha
from pytest_llmperf.model.metric import Figure
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import TrafficSpec
from pytest_llmperf.plugin import options
from pytest_llmperf.plugin.cases import NEEDS_TRAFFIC, Case, case_of
from pytest_llmperf.plugin.grouping import require_group
from pytest_llmperf.replay.build import FROM_RECORDED

Servers = tuple[ServerSpec, ...]

JUDGES = {"llm_verdict", "llm_comparison"}
"""What can judge against nights. Whether a test asks for that is known once it has run, and alpha
must be known before: the figures of each that could are counted."""


class Collected:
    """Learns from the selected tests, before any of them runs.

    ``campaigns``: servers → the traffics wanted of them, in the tests' order. ``gates``: what
    is judged against a baseline on which traffic. ``own``: servers of ``llm_server``.
    ``judged``: figures that share the session's false alarms. ``skipped``: why tests will not
    run here, one reason a test, as far as that is known.
    """

    def __init__(self) -> None:
        self.campaigns: dict[Servers, dict[TrafficSpec, None]] = {}
        self.gates: dict[Servers, dict[str, Gate]] = {}
        self.own: dict[ServerSpec, None] = {}
        self.judged = 0
        self.skipped: list[str] = []

    @property
    def alpha(self) -> float:
        """False alarms each judged figure may raise."""
        return session_alpha(max(self.judged, 1))

    @property
    def servers(self) -> list[ServerSpec]:
        """Every server of every campaign."""
        return [server for servers in self.campaigns for server in servers]

    def learn(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Learn what the selected tests want; raise SpecError for what cannot be."""
        servers: dict[str, ServerSpec] = {}
        traffics: dict[str, TrafficSpec] = {}
        for item in items:
            if (case := case_of(item)) is None:
                continue
            require_group(config, item)
            if not item.get_closest_marker("skip"):
                _require_gpus(config, item, case)
            if skip := item.get_closest_marker("skip"):
                self.skipped.append(str(skip.kwargs.get("reason") or "".join(skip.args[:1])))
                continue
            for server in case.servers:
                _same("server", servers, server.name, server)
            self._add(case, set(getattr(item, "fixturenames", ())), traffics)
        for traffic in traffics.values():
            _check_arrival(traffic)
        measures = bool(self.campaigns or self.own) and not options.measures_nothing(config)
        _check_folders(config, measures=measures)
        _check_attached(servers)

    def _add(self, case: Case, fixtures: set[str], traffics: dict[str, TrafficSpec]) -> None:
        if case.traffic is not None and NEEDS_TRAFFIC & fixtures:
            _same("traffic", traffics, case.traffic.name, case.traffic)
            self.campaigns.setdefault(case.servers, {})[case.traffic] = None
        if "llm_server" in fixtures:
            self.own[case.server] = None
        if JUDGES & fixtures:
            self.judged += sum(not of.exact for of in case.gate.figures)
            gates = self.gates.setdefault(case.servers, {})
            known = gates.get(case.traffic_name)
            gates[case.traffic_name] = _strictest(known, case.gate) if known else case.gate


def _strictest(one: Gate, other: Gate) -> Gate:
    """Return one gate for two tests that judge the same: all figures, the least tolerance."""
    figures = tuple(dict.fromkeys((*one.figures, *other.figures)))
    tolerances = {
        of.name: min(_tolerance(gate, of) for gate in (one, other) if of in gate.figures)
        for of in figures
    }
    return Gate(figures, tolerances)


def _tolerance(gate: Gate, of: Figure) -> float:
    return gate.tolerances.get(of.name, EXACT_TOLERANCE) if of.exact else gate.rule(of).tolerance


def _require_gpus(config: pytest.Config, item: pytest.Item, case: Case) -> None:
    """Skip what this host has too few GPUs for; a plan needs none."""
    if not (item.get_closest_marker("gpu") and ENGINES[case.server.engine].uses_gpu):
        return
    found = len(gpu.gpus())
    if not found and options.value(config, "plan"):
        return
    if not found and options.wants_gpu(config):
        raise SpecError(
            "-m gpu on a host without GPUs: NVML shows none. Run it on a GPU runner, rehearse "
            "with --llmperf-engine sim, or see what it would cost with --llmperf-plan"
        )
    needed = max(server.gpus for server in case.servers)
    if found < needed:
        reason = f"{case.server.name} needs {needed} GPU(s), this host has {found}"
        item.add_marker(pytest.mark.skip(reason=reason))


def _same(kind: str, seen: dict[str, Any], name: str, spec: Any) -> None:
    if seen.setdefault(name, spec) != spec:
        raise SpecError(
            f"two {kind}s are named {name!r}, but a name is a {kind}'s identity in baselines and "
            f"history. Rename one of:\n  {seen[name]}\n  {spec}"
        )


def _check_arrival(traffic: TrafficSpec) -> None:
    """Raise SpecError for an arrival process, or options of one, that cannot be."""
    try:
        arrival = ARRIVALS[traffic.arrival]
    except UnknownNameError as error:
        raise SpecError(f"traffic {traffic.name!r}: {error}") from None
    # What was recorded is in a file, which is not read before the tests run.
    arrival.due_ns(traffic, () if traffic.arrival == FROM_RECORDED else None)


def _check_folders(config: pytest.Config, *, measures: bool) -> None:
    """Raise SpecError for a folder that is none, or that what is measured cannot be kept in."""
    wanted = {"runs": measures, "report": measures}
    wanted["baselines"] = measures and options.value(config, "accept")
    for name, written in wanted.items():
        if (folder := options.value(config, name)).exists() and not folder.is_dir():
            raise SpecError(f"--llmperf-{name}: {folder} is no folder")
        if written:
            _check_writable(name, folder)


def _check_writable(name: str, folder: Path) -> None:
    """Write a file that is gone at once: permissions alone do not tell, on a full disk say.

    A folder that does not exist is not made before there is something to put in it; the nearest
    one that does must take it.
    """
    try:
        there = next(one for one in (folder, *folder.parents) if one.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise SpecError(
            f"--llmperf-{name}: cannot write to {folder} ({error.strerror or error}); name a folder "
            "that can be made and written to"
        ) from None


def _check_attached(servers: dict[str, ServerSpec]) -> None:
    attached = [server.name for server in servers.values() if server.engine == "attach"]
    if len(attached) > 1:
        raise SpecError(
            f"{' and '.join(attached)} would both be the one server at --llmperf-base-url: "
            "attach to one server a session, and choose its tests with -k"
        )
