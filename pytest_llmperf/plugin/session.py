"""The one object behind the plugin: campaigns run once, verdicts kept, the report written."""

from __future__ import annotations

import os
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from pytest_llmperf import gpu
from pytest_llmperf.campaign import (
    CampaignResult,
    CampaignSpec,
    LaunchResult,
    Plan,
    Tools,
    run_campaign,
)
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import LlmPerfError, SpecError
from pytest_llmperf.gate import session_alpha
from pytest_llmperf.launch import LaunchSettings, RunningServer, launch, read_machine
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import TrafficSpec
from pytest_llmperf.plugin import options
from pytest_llmperf.plugin.cases import NEEDS_TRAFFIC, Case
from pytest_llmperf.plugin.ledger import Ledger
from pytest_llmperf.plugin.terminal import Terminal, summary
from pytest_llmperf.store.runs import RunFolder, RunHeader

if TYPE_CHECKING:
    from pytest_llmperf.plugin.closing import Closing


def session_of(config: pytest.Config) -> Session:
    """Return the session's object, made at the first call."""
    if options.SESSION not in config.stash:
        config.stash[options.SESSION] = Session(config)
    return config.stash[options.SESSION]


class Session:
    """Owns the campaigns of one pytest session (of one worker, under xdist)."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._plan = Plan(
            self.option("launches") or Plan().launches, self.option("replays") or Plan().replays
        )
        self._wanted: dict[tuple[ServerSpec, ...], dict[TrafficSpec, None]] = {}
        self.alpha = session_alpha(1)
        self.terminal = Terminal(config)
        self._results: dict[tuple[ServerSpec, ...], CampaignResult] = {}
        self._complaint: str | None = None
        self._server_kept = ExitStack()
        self._server_running: RunningServer | None = None
        self._servers_started = 0
        self._closing: Closing | None = None

    def option(self, name: str) -> Any:
        """Return an option's value."""
        return options.value(self._config, name)

    @cached_property
    def ledger(self) -> Ledger:
        """Return the keeper of this session's baselines and verdicts."""
        return Ledger(self)

    # -- before the first test -----------------------------------------------------------

    def arrange(self, items: list[pytest.Item]) -> None:
        """Keep the tests of one campaign in one xdist worker."""
        if not self._config.pluginmanager.has_plugin("xdist"):
            return
        for item in items:
            if (case := _case(item)) is not None:
                group = CampaignSpec(case.servers, ()).label
                item.add_marker(pytest.mark.xdist_group(group))

    def _require_gpus(self, item: pytest.Item, case: Case) -> None:
        found = len(gpu.gpus())
        if not found and options.wants_gpu(self._config):
            raise SpecError(
                "-m gpu on a host without GPUs: NVML shows none. Run it on a GPU runner, or "
                "rehearse with --llmperf-engine sim"
            )
        needed = max(server.gpus for server in case.servers)
        if found < needed:
            reason = f"{case.server.name} needs {needed} GPU(s), this host has {found}"
            item.add_marker(pytest.mark.skip(reason=reason))

    def plan(self, items: list[pytest.Item]) -> None:
        """Learn what the selected tests want; refuse what cannot be.

        Raise pytest.UsageError. An xdist worker cannot end a session: there every test of ours
        ends with the complaint instead.
        """
        try:
            self._plan_for(items)
        except SpecError as error:
            if not hasattr(self._config, "workerinput"):
                raise pytest.UsageError(str(error)) from None
            self._complaint = str(error)

    def _plan_for(self, items: list[pytest.Item]) -> None:
        judged = 0
        servers: dict[str, ServerSpec] = {}
        traffics: dict[str, TrafficSpec] = {}
        for item in items:
            if (case := _case(item)) is None or item.get_closest_marker("skip"):
                continue
            if item.get_closest_marker("gpu") and ENGINES[case.server.engine].uses_gpu:
                self._require_gpus(item, case)
            for server in case.servers:
                _same("server", servers, server.name, server)
            if case.traffic is not None and NEEDS_TRAFFIC & set(_fixtures(item)):
                _same("traffic", traffics, case.traffic.name, case.traffic)
                self._wanted.setdefault(case.servers, {})[case.traffic] = None
            if "llm_verdict" in _fixtures(item):
                judged += sum(not of.exact for of in case.gate.figures)
        self.alpha = session_alpha(max(judged, 1))
        for name in ("runs", "report", "baselines"):
            if (folder := self.option(name)).exists() and not folder.is_dir():
                raise SpecError(f"--llmperf-{name}: {folder} is no folder")
        attached = [server.name for server in servers.values() if server.engine == "attach"]
        if len(attached) > 1:
            raise SpecError(
                f"{' and '.join(attached)} would both be the one server at --llmperf-base-url: "
                "attach to one server a session, and choose its tests with -k"
            )

    # -- measuring -------------------------------------------------------------------------

    @cached_property
    def folder(self) -> RunFolder:
        """This run's artifacts, made when the first campaign starts."""
        folder = RunFolder.create(self.option("runs"), options.run_id(self._config))
        engines = {ENGINES[s.engine].simulated for servers in self._wanted for s in servers}
        folder.write_header(
            RunHeader(
                id=options.run_id(self._config),
                started_at=datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
                machine=self._header_machine(),
                versions=options.versions(),
                options={
                    option.name: _shown(self.option(option.name)) for option in options.OPTIONS
                },
                simulated=True in engines,
                command=" ".join(["pytest", *self._config.invocation_params.args]),
            )
        )
        return folder

    def _header_machine(self) -> Machine:
        servers = [server for wanted in self._wanted for server in wanted]
        # A run on several engines is shown under the first; each baseline has its own.
        return self.machine(servers[0]) if servers else _host(simulated=False)

    def machine(self, server: ServerSpec, *, simulated: bool = False) -> Machine:
        """Return what this server's results are compared by.

        This host's fingerprint; of a server that runs already only where it is reached.
        """
        if ENGINES[server.engine].managed:
            return _host(simulated=simulated or ENGINES[server.engine].simulated)
        where = urlsplit(self.option("base-url") or "").hostname
        return Machine(cpu_model=f"attached to {where}", simulated=simulated)

    @cached_property
    def _tools(self) -> Tools:
        settings = LaunchSettings(
            executable=self.option("vllm"),
            models=self.option("model"),
            base_url=self.option("base-url"),
            startup_timeout=self.option("startup-timeout"),
            lease_timeout=self.option("lease-timeout"),
            api_key=os.environ.get("LLMPERF_API_KEY"),
        )
        return Tools(
            settings, self.folder, self.option("stall-timeout"), say=self.terminal.progress
        )

    def measured(self, case: Case) -> CampaignResult:
        """Return the campaign of this case's server(s), run at the first call."""
        self._require_runnable()
        if case.servers not in self._results:
            self._stop_kept()
            spec = CampaignSpec(case.servers, tuple(self._wanted[case.servers]))
            try:
                self._results[case.servers] = run_campaign(spec, self._plan, self._tools)
            except Exception as error:  # noqa: BLE001 - a full disk, say: told once a server
                self._results[case.servers] = CampaignResult((), {}, error)
        return self._results[case.servers]

    def _require_runnable(self) -> None:
        dist = getattr(self._config, "workerinput", {}).get("llmperf_dist", "loadgroup")
        if dist != "loadgroup":
            pytest.fail(
                "pytest -n needs --dist loadgroup with llmperf tests: the tests of one server "
                "share its launches, so they must run in one worker",
                pytrace=False,
            )
        if self._complaint:
            pytest.fail(self._complaint, pytrace=False)

    def running(self, case: Case) -> RunningServer:
        """Return this case's server, running; kept until another is asked for."""
        self._require_runnable()
        try:
            if self._server_running is None or self._server_running.spec != case.server:
                self._start_kept(case.server)
            assert self._server_running is not None  # noqa: S101 - tells the type checker
            self._server_running.check_alive()
        except LlmPerfError as error:
            self._server_running = None
            pytest.fail(str(error), pytrace=False)
        return self._server_running

    def _start_kept(self, server: ServerSpec) -> None:
        self._stop_kept()
        self._servers_started += 1
        folder = self.folder.launch("llm_server", server.name, self._servers_started).path
        self._server_running = self._server_kept.enter_context(
            launch(server, folder, self._tools.settings)
        )

    def _stop_kept(self) -> None:
        self._server_running = None
        self._server_kept.close()

    def result_of(self, case: Case) -> CampaignResult | None:
        """Return the campaign of this case so far, None where none has run."""
        return self._results.get(case.servers)

    def launches_of(self, case: Case) -> list[LaunchResult]:
        """Return the launches of the judged server so far."""
        result = self.result_of(case)
        launches = result.launches if result else ()
        return [launch for launch in launches if launch.server == case.server]

    # -- after the last test ---------------------------------------------------------------

    def finish(self, session: pytest.Session, exitstatus: int) -> None:
        """Stop what runs and accept what may be; in the controlling process write the report."""
        from pytest_llmperf.plugin.closing import Closing

        self._closing = Closing(session)
        self._closing.step("a server was not stopped", self._stop_kept)
        if "ledger" in self.__dict__:
            self._closing.step("a baseline was not written", self.ledger.accept_all)
        if not hasattr(self._config, "workerinput"):
            self._closing.close(self, exitstatus)

    def summarise(self, reporter: pytest.TerminalReporter) -> None:
        """Show every verdict, and where run and report are."""
        if self._closing is not None:
            summary(reporter, options.run_path(self._config), self._closing)

    @property
    def report_folder(self) -> Path:
        """Where reports go."""
        folder: Path = self.option("report")
        return folder


def _case(item: pytest.Item) -> Case | None:
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("llm_case") if callspec else None
    return case if isinstance(case, Case) else None


def _fixtures(item: pytest.Item) -> list[str]:
    return list(getattr(item, "fixturenames", ()))


@cache
def _host(*, simulated: bool) -> Machine:
    """Return this host's fingerprint, read once: hardware does not change under a session."""
    return read_machine(simulated=simulated)


def _same(kind: str, seen: dict[str, Any], name: str, spec: Any) -> None:
    if seen.setdefault(name, spec) != spec:
        raise SpecError(
            f"two {kind}s are named {name!r}, but a name is a {kind}'s identity in baselines and "
            f"history. Rename one of:\n  {seen[name]}\n  {spec}"
        )


def _shown(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
