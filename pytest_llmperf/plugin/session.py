"""The one object behind the plugin: campaigns run once, verdicts kept, the report written."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from pytest_llmperf.campaign import (
    CampaignResult,
    CampaignSpec,
    Plan,
    Tools,
    run_campaign,
)
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import SpecError
from pytest_llmperf.launch import LaunchSettings, RunningServer, launch, read_machine
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.plugin import options
from pytest_llmperf.plugin.cases import Case
from pytest_llmperf.plugin.collecting import Collected
from pytest_llmperf.plugin.keeping import keep_of, kept_lines, marked
from pytest_llmperf.plugin.ledger import Ledger
from pytest_llmperf.plugin.own_server import OwnServer
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
            1 if self.option("keep-servers") else self.option("launches") or Plan().launches,
            self.option("replays") or Plan().replays,
        )
        self.collected = Collected()
        self.terminal = Terminal(config)
        self._results: dict[tuple[ServerSpec, ...], CampaignResult] = {}
        self._complaint: str | None = None
        self._own = OwnServer(self._start_own)
        self._closing: Closing | None = None
        self.interrupted = False
        """Whether Ctrl-C ended a campaign: a second one takes that from pytest's exit status."""

    def option(self, name: str) -> Any:
        """Return an option's value."""
        return options.value(self._config, name)

    @cached_property
    def ledger(self) -> Ledger:
        """Return the keeper of this session's baselines and verdicts."""
        return Ledger(self)

    # -- before the first test -----------------------------------------------------------

    def collect(self, items: list[pytest.Item]) -> None:
        """Learn what the selected tests want; refuse what cannot be.

        Raise pytest.UsageError. An xdist worker cannot end a session: there every test of ours
        ends with the complaint instead.
        """
        try:
            self.collected.learn(self._config, items)
        except SpecError as error:
            if not hasattr(self._config, "workerinput"):
                raise pytest.UsageError(str(error)) from None
            self._complaint = str(error)

    @property
    def alpha(self) -> float:
        """False alarms each figure may raise, from the session's size."""
        return self.collected.alpha

    def tell_plan(self, session: pytest.Session) -> bool | None:
        """Tell the plan; return True where the session ends with it.

        An error of the collection comes first, and is pytest's to tell.
        """
        broken = session.testsfailed and not self._config.option.continue_on_collection_errors
        if broken or hasattr(self._config, "workerinput"):
            return None
        from pytest_llmperf.plugin.planning import Planner

        planner = Planner(self, self._plan)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if self.option("plan") and reporter is not None:
            planner.tell(reporter)
        elif self.collected.campaigns and not options.measures_nothing(self._config):
            planner.foretell(self.terminal.announce)
            if self.option("keep-servers"):
                self.terminal.announce("kept servers: 1 launch of each, and no night to accept")
        return True if self.option("plan") else None

    # -- measuring -------------------------------------------------------------------------

    @cached_property
    def folder(self) -> RunFolder:
        """This run's artifacts, made when the first campaign starts."""
        folder = RunFolder.create(self.option("runs"), options.run_id(self._config))
        engines = {ENGINES[server.engine].simulated for server in self.collected.servers}
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
        servers = self.collected.servers
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
            stop_timeout=self.option("stop-timeout"),
            lease_timeout=self.option("lease-timeout"),
            keep=keep_of(self._config),
            api_key=os.environ.get("LLMPERF_API_KEY"),
        )
        return Tools(
            settings, self.folder, self.option("stall-timeout"), say=self.terminal.progress
        )

    def measured(self, case: Case) -> CampaignResult:
        """Return the campaign of this case's server(s), run at the first call."""
        self._require_runnable()
        if case.servers not in self._results:
            self._own.stop()
            spec = CampaignSpec(case.servers, tuple(self.collected.campaigns[case.servers]))
            try:
                result = run_campaign(spec, self._plan, self._tools)
                self._results[case.servers] = self._kept(result, case)
            except KeyboardInterrupt:
                self.interrupted = True
                raise
            except Exception as error:  # noqa: BLE001 - a full disk, say: told once a server
                self._results[case.servers] = CampaignResult((), {}, error)
        return self._results[case.servers]

    def _kept(self, result: CampaignResult, case: Case) -> CampaignResult:
        """Return the result; with the caveat where its servers are kept ones."""
        return marked(result, case.servers) if self.option("keep-servers") else result

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
        """Return this case's server, running; it stays until another is asked for."""
        self._require_runnable()
        return self._own.running(case.server)

    def _start_own(self, server: ServerSpec, number: int) -> AbstractContextManager[RunningServer]:
        folder = self.folder.launch("llm_server", server.name, number).path
        self.terminal.progress(f"{server.name} for llm_server: starting")
        settings = replace(self._tools.settings, on_progress=self.terminal.progress)
        return launch(server, folder, settings)

    def result_of(self, case: Case) -> CampaignResult | None:
        """Return the campaign of this case so far, None where none has run."""
        return self._results.get(case.servers)

    # -- after the last test ---------------------------------------------------------------

    def finish(self, session: pytest.Session, exitstatus: int) -> None:
        """Stop what runs and accept what may be; in the controlling process write the report."""
        from pytest_llmperf.plugin.closing import Closing

        self._closing = Closing(session)
        self._closing.step("a server was not stopped", self._own.stop)
        if "ledger" in self.__dict__:
            self._closing.step("a baseline was not written", self.ledger.accept_all)
        if not hasattr(self._config, "workerinput"):
            self._closing.close(self, exitstatus)

    def summarise(self, reporter: pytest.TerminalReporter) -> None:
        """Show every verdict, and where run and report are."""
        if self._closing is not None:
            summary(reporter, options.run_path(self._config), self._closing)
            for line in kept_lines(self._config):
                reporter.write_line(line, yellow=True)

    @property
    def report_folder(self) -> Path:
        """Where reports go."""
        folder: Path = self.option("report")
        return folder


@cache
def _host(*, simulated: bool) -> Machine:
    """Return this host's fingerprint, read once: hardware does not change under a session."""
    return read_machine(simulated=simulated)


def _shown(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
