"""The one object behind the plugin: campaigns run once, verdicts kept, the report written."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from pytest_llmperf import gpu
from pytest_llmperf.campaign import (
    CampaignResult,
    CampaignSpec,
    Gate,
    LaunchResult,
    Plan,
    Tools,
    describe,
    run_campaign,
)
from pytest_llmperf.campaign.message import differences
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import LlmPerfError
from pytest_llmperf.gate import session_alpha
from pytest_llmperf.launch import LaunchSettings, RunningServer, launch, read_machine
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import TrafficSpec
from pytest_llmperf.model.verdict import Noise, Status, Verdict
from pytest_llmperf.plugin import options
from pytest_llmperf.plugin.cases import Case
from pytest_llmperf.plugin.terminal import Terminal
from pytest_llmperf.store.baselines import BaselineStore, NoBaseline, traffic_record
from pytest_llmperf.store.runs import RunFolder, RunHeader
from pytest_llmperf.store.streak import nights_in_a_row

PATIENCE = 3
"""Inconclusive nights in a row after which a skip becomes a failure."""
NEVER_ACCEPTED = (Status.INVALID, Status.SLO_VIOLATED, Status.REGRESSED)


def session_of(config: pytest.Config) -> Session:
    """Return the session's object, made at the first call."""
    if options.SESSION not in config.stash:
        config.stash[options.SESSION] = Session(config)
    return config.stash[options.SESSION]


class Session:
    """Owns the campaigns of one pytest session (of one worker, under xdist)."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._terminal = Terminal(config)
        self._plan = Plan(
            self._option("launches") or Plan().launches, self._option("replays") or Plan().replays
        )
        self._wanted: dict[tuple[ServerSpec, ...], dict[TrafficSpec, None]] = {}
        self._alpha = session_alpha(1)
        self._results: dict[tuple[ServerSpec, ...], CampaignResult | LlmPerfError] = {}
        self._baselines = BaselineStore(self._option("baselines"))
        self._server_kept = ExitStack()
        self._server_running: RunningServer | None = None
        self.report: Path | None = None

    def _option(self, name: str) -> Any:
        return options.value(self._config, name)

    # -- before the first test -----------------------------------------------------------

    def arrange(self, items: list[pytest.Item]) -> None:
        """Group the tests of one campaign for xdist; skip what this host has no GPUs for."""
        for item in items:
            if (case := _case(item)) is None:
                continue
            group = CampaignSpec(case.servers, ()).label
            item.add_marker(pytest.mark.xdist_group(group))
            if item.get_closest_marker("gpu") and ENGINES[case.server.engine].uses_gpu:
                self._require_gpus(item, case)

    def _require_gpus(self, item: pytest.Item, case: Case) -> None:
        found = len(gpu.gpus())
        if not found and options.wants_gpu(self._config):
            raise pytest.UsageError(
                "-m gpu on a host without GPUs: NVML shows none. Run it on a GPU runner, or "
                "rehearse with --llmperf-engine sim"
            )
        needed = max(server.gpus for server in case.servers)
        if found < needed:
            reason = f"{case.server.name} needs {needed} GPU(s), this host has {found}"
            item.add_marker(pytest.mark.skip(reason=reason))

    def plan(self, items: list[pytest.Item]) -> None:
        """Learn what the selected tests want; refuse two things of one name."""
        judged = 0
        servers: dict[str, ServerSpec] = {}
        traffics: dict[str, TrafficSpec] = {}
        for item in items:
            if (case := _case(item)) is None or item.get_closest_marker("skip"):
                continue
            for server in case.servers:
                _same("server", servers, server.name, server)
            if case.traffic is not None:
                _same("traffic", traffics, case.traffic.name, case.traffic)
                self._wanted.setdefault(case.servers, {})[case.traffic] = None
            if "llm_verdict" in item.fixturenames:  # type: ignore[attr-defined]
                judged += sum(not of.exact for of in case.gate.figures)
        self._alpha = session_alpha(max(judged, 1))

    # -- measuring -------------------------------------------------------------------------

    @cached_property
    def folder(self) -> RunFolder:
        """This run's artifacts, made when the first campaign starts."""
        folder = RunFolder.create(self._option("runs"), options.run_id(self._config))
        engines = {ENGINES[s.engine].simulated for servers in self._wanted for s in servers}
        folder.write_header(
            RunHeader(
                id=options.run_id(self._config),
                started_at=datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
                machine=self.machine(simulated=engines == {True}),
                versions=_versions(),
                options={
                    option.name: _shown(self._option(option.name)) for option in options.OPTIONS
                },
                simulated=True in engines,
                command=" ".join(["pytest", *self._config.invocation_params.args]),
            )
        )
        return folder

    def machine(self, *, simulated: bool) -> Machine:
        """Return this host's fingerprint, read once."""
        machines: dict[bool, Machine] = self.__dict__.setdefault("_machines", {})
        if simulated not in machines:
            machines[simulated] = read_machine(simulated=simulated)
        return machines[simulated]

    @cached_property
    def _tools(self) -> Tools:
        settings = LaunchSettings(
            executable=self._option("vllm"),
            models=self._option("model"),
            base_url=self._option("base-url"),
            startup_timeout=self._option("startup-timeout"),
            api_key=os.environ.get("LLMPERF_API_KEY"),
        )
        return Tools(
            settings, self.folder, self._option("stall-timeout"), say=self._terminal.progress
        )

    def measured(self, case: Case) -> CampaignResult:
        """Return the campaign of this case's server(s), run at the first call."""
        if getattr(self._config, "workerinput", {}).get("llmperf_dist", "loadgroup") != "loadgroup":
            pytest.fail(
                "pytest -n needs --dist loadgroup with llmperf tests: the tests of one server "
                "share its launches, so they must run in one worker",
                pytrace=False,
            )
        self._stop_kept()
        if case.servers not in self._results:
            spec = CampaignSpec(case.servers, tuple(self._wanted[case.servers]))
            try:
                self._results[case.servers] = run_campaign(spec, self._plan, self._tools)
            except LlmPerfError as error:
                self._results[case.servers] = error
        result = self._results[case.servers]
        if isinstance(result, LlmPerfError):
            pytest.fail(str(result), pytrace=False)
        return result

    def running(self, case: Case) -> RunningServer:
        """Return this case's server, running; kept until another is asked for."""
        if self._server_running is None or self._server_running.spec != case.server:
            self._stop_kept()
            folder = self.folder.launch("llm_server", case.server.name, 1).path
            try:
                self._server_running = self._server_kept.enter_context(
                    launch(case.server, folder, self._tools.settings)
                )
            except LlmPerfError as error:
                pytest.fail(str(error), pytrace=False)
        return self._server_running

    def _stop_kept(self) -> None:
        self._server_running = None
        self._server_kept.close()

    # -- judging ---------------------------------------------------------------------------

    def gate(self, case: Case) -> Gate:
        """Return the case's gate with the session's α."""
        return Gate(case.gate.figures, case.gate.tolerances, self._alpha)

    def _machine_of(self, case: Case) -> Machine:
        return self.machine(simulated=ENGINES[case.server.engine].simulated)

    def baseline(self, case: Case, result: CampaignResult) -> Baseline | NoBaseline:
        """Return what is stored for this case, or why nothing comparable is."""
        assert case.traffic is not None  # noqa: S101 - cases.py requires it
        traffic = result.traffics[case.traffic.name]
        try:
            return self._baselines.find(
                self._machine_of(case),
                case.server.name,
                case.traffic.name,
                traffic.digest,
                traffic_record=traffic_record(traffic),
            )
        except LlmPerfError as error:
            pytest.fail(str(error), pytrace=False)

    def noise(self, case: Case, figure: str) -> Noise | None:
        """Return this machine's pooled noise of a figure."""
        return self._baselines.noise(self._machine_of(case), figure)

    def record(self, verdict: Verdict, case: Case, baseline: Baseline | None = None) -> str:
        """Store a verdict and return its message."""
        version = self._engine_version(case)
        changed = differences(case.server, baseline, version) if baseline else []
        places = {"log": self._log_of(case), "run": self.folder.path}
        message = describe(verdict, changed=changed, places=places)
        self.folder.write_verdict(verdict, message, baseline=baseline)
        return message

    def _launches_of(self, case: Case) -> list[LaunchResult]:
        result = self._results.get(case.servers)
        launches = result.launches if isinstance(result, CampaignResult) else ()
        return [launch for launch in launches if launch.server == case.server]

    def _log_of(self, case: Case) -> Path | str:
        launches = self._launches_of(case)
        return launches[-1].log if launches else "none: no launch was ever ready"

    def _engine_version(self, case: Case) -> str | None:
        return next((launch.facts.engine_version for launch in self._launches_of(case)), None)

    def conclude(
        self, verdict: Verdict, case: Case, result: CampaignResult, node: pytest.Item
    ) -> None:
        """Store the verdict, accept it if asked, and end the test as its status says."""
        found = self.baseline(case, result) if verdict.against is None else None
        message = self.record(verdict, case, found if isinstance(found, Baseline) else None)
        node.user_properties.append(("llmperf_status", verdict.status.value))
        accepted = self._accept(verdict, case, result)
        status = verdict.status
        if status in (Status.SLO_VIOLATED, Status.REGRESSED) or (
            status is Status.NO_BASELINE and self._option("strict")
        ):
            pytest.fail(message, pytrace=False)
        if status is Status.NO_BASELINE and not accepted:
            pytest.skip(message)
        if status is Status.INCONCLUSIVE:
            self._inconclusive(verdict, message)

    def _inconclusive(self, verdict: Verdict, message: str) -> None:
        choice = self._option("inconclusive")
        nights = nights_in_a_row(verdict, self.folder.path)
        if choice == "fail":
            pytest.fail(message, pytrace=False)
        if choice == "skip" and nights >= PATIENCE:
            told = f"{message}\n  inconclusive for {nights} nights in a row: nothing guards this"
            pytest.fail(told, pytrace=False)
        if choice == "skip":
            pytest.skip(message)

    def _accept(self, verdict: Verdict, case: Case, result: CampaignResult) -> bool:
        if not self._option("accept") or verdict.against or verdict.status in NEVER_ACCEPTED:
            return False
        assert case.traffic is not None  # noqa: S101 - cases.py requires it
        now = datetime.now(UTC).astimezone()
        night = Night(
            date=now.date().isoformat(),
            host=socket.gethostname(),
            figures=result.figures(case.server.name, case.traffic.name),
            provenance={
                "accepted_at": now.isoformat(timespec="seconds"),
                "accepted_by": getpass.getuser(),
                "engine_version": self._engine_version(case),
                "run": options.run_id(self._config),
                "status": verdict.status.value,
                **_versions(),
            },
        )
        traffic = result.traffics[case.traffic.name]
        try:
            path = self._baselines.accept(self._machine_of(case), case.server, traffic, night)
        except LlmPerfError as error:
            pytest.fail(str(error), pytrace=False)
        self._terminal.accepted.append(f"{case.id} → {path}")
        return True

    # -- after the last test ---------------------------------------------------------------

    def finish(self, session: pytest.Session, exitstatus: int) -> None:
        """Stop what runs; in the controlling process write the report."""
        self._stop_kept()
        if hasattr(self._config, "workerinput"):
            return
        from pytest_llmperf.plugin.closing import close

        self.report = close(self, session, exitstatus)

    def summarise(self, reporter: pytest.TerminalReporter) -> None:
        """Show every verdict, and where run and report are."""
        self._terminal.summary(reporter, options.run_path(self._config), self.report)

    @property
    def report_folder(self) -> Path:
        """Where reports go."""
        folder: Path = self._option("report")
        return folder


def _case(item: pytest.Item) -> Case | None:
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("llm_case") if callspec else None
    return case if isinstance(case, Case) else None


def _same(kind: str, seen: dict[str, Any], name: str, spec: Any) -> None:
    if seen.setdefault(name, spec) != spec:
        raise pytest.UsageError(
            f"two {kind}s are named {name!r}, but a name is a {kind}'s identity in baselines and "
            f"history. Rename one of:\n  {seen[name]}\n  {spec}"
        )


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "pytest": pytest.__version__,
        "pytest-llmperf": version("pytest-llmperf"),
    }


def _shown(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
