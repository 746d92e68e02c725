"""The one object behind the plugin: campaigns run once, verdicts kept, the report written."""

from __future__ import annotations

import os
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
    LaunchResult,
    Plan,
    Tools,
    run_campaign,
)
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import LlmPerfError
from pytest_llmperf.gate import session_alpha
from pytest_llmperf.launch import LaunchSettings, RunningServer, launch, read_machine
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import TrafficSpec
from pytest_llmperf.plugin import options
from pytest_llmperf.plugin.cases import Case
from pytest_llmperf.plugin.ledger import Ledger
from pytest_llmperf.plugin.terminal import Terminal
from pytest_llmperf.store.runs import RunFolder, RunHeader


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
        self._results: dict[tuple[ServerSpec, ...], CampaignResult | LlmPerfError] = {}
        self._server_kept = ExitStack()
        self._server_running: RunningServer | None = None
        self.report: Path | None = None

    def option(self, name: str) -> Any:
        """Return an option's value."""
        return options.value(self._config, name)

    @cached_property
    def ledger(self) -> Ledger:
        """Return the keeper of this session's baselines and verdicts."""
        return Ledger(self)

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
        self.alpha = session_alpha(max(judged, 1))

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
                machine=self.machine(simulated=engines == {True}),
                versions=options.versions(),
                options={
                    option.name: _shown(self.option(option.name)) for option in options.OPTIONS
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
            executable=self.option("vllm"),
            models=self.option("model"),
            base_url=self.option("base-url"),
            startup_timeout=self.option("startup-timeout"),
            api_key=os.environ.get("LLMPERF_API_KEY"),
        )
        return Tools(
            settings, self.folder, self.option("stall-timeout"), say=self.terminal.progress
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

    def launches_of(self, case: Case) -> list[LaunchResult]:
        """Return the launches of the judged server so far."""
        result = self._results.get(case.servers)
        launches = result.launches if isinstance(result, CampaignResult) else ()
        return [launch for launch in launches if launch.server == case.server]

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
        self.terminal.summary(reporter, options.run_path(self._config), self.report)

    @property
    def report_folder(self) -> Path:
        """Where reports go."""
        folder: Path = self.option("report")
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


def _shown(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
