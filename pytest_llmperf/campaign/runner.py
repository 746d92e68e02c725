"""Run a campaign: launches × replays, every result on disk as soon as it exists."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pytest_llmperf.campaign.death import death_first
from pytest_llmperf.campaign.progress import Progress
from pytest_llmperf.campaign.results import CampaignResult, LaunchResult, ReplayResult
from pytest_llmperf.campaign.spec import CampaignSpec, Plan
from pytest_llmperf.campaign.validity import Invalid, invalid_reason
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import LlmPerfError, ServerError
from pytest_llmperf.launch import (
    LaunchSettings,
    RunningServer,
    counters_from,
    launch,
    restarted,
    risen,
)
from pytest_llmperf.metrics import figures_of, launch_figures, offered_limited
from pytest_llmperf.model.answers import Answers
from pytest_llmperf.model.arguments import argument
from pytest_llmperf.model.record import Counters, Replay
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Traffic, TrafficSpec
from pytest_llmperf.replay import replay, warm_up
from pytest_llmperf.replay.build import build_traffic
from pytest_llmperf.replay.probe import probe
from pytest_llmperf.store.runs import LaunchFolder, RunFolder
from pytest_llmperf.tokens import tokenizer_for

RESTARTED = Invalid("server", "the server restarted during the replay: its counters began anew")


@dataclass(frozen=True)
class Tools:
    """What every campaign of a session works with."""

    settings: LaunchSettings
    folder: RunFolder
    stall_timeout: float = 60.0
    say: Callable[[str], None] = lambda _text: None
    traffic_cache: dict[tuple[TrafficSpec, str], Traffic] = field(default_factory=dict)

    def traffic(self, spec: TrafficSpec, server: ServerSpec) -> Traffic:
        """Return the requests of a recipe, with lengths as this server's model counts them."""
        # Not by the hub's cache: it fills on the first night, and with it the digest would change.
        model = self.settings.models.get(server.model, server.model)
        tokenizer = tokenizer_for(model, hub=False)
        key = (spec, tokenizer.name)
        if key not in self.traffic_cache:
            self.traffic_cache[key] = build_traffic(spec, tokenizer)
            self.folder.write_traffic(self.traffic_cache[key])
        return self.traffic_cache[key]


def run_campaign(spec: CampaignSpec, plan: Plan, tools: Tools) -> CampaignResult:
    """Launch and replay as planned.

    Whatever goes wrong in a launch or a replay ends the campaign; what was measured before is
    kept, and the result says what is missing. A traffic that cannot be built is left out, with
    its error in ``unbuilt``; where none can, nothing is launched.
    """
    traffics, unbuilt = _traffics(spec, tools)
    managed = all(ENGINES[server.engine].managed for server in spec.servers)
    plan = plan if managed else replace(plan, launches=1)
    progress = Progress(spec, plan, tools.say)
    turns = spec.turns(plan.launches) if traffics else ()
    done: list[LaunchResult] = []
    error, missing = None, ""
    for turn, server in enumerate(turns):
        number = 1 + sum(earlier.server == server for earlier in done)
        step = _Launch(spec, server, number, traffics, plan, tools, progress)
        try:
            done.append(step.run())
        except (Exception, KeyboardInterrupt) as caught:
            missing = (
                f"{server.name}, launch {number} of {plan.launches}: {step.replays_done} of "
                f"{plan.replays * len(traffics)} replays done; {len(turns) - turn - 1} "
                "launches not begun"
            )
            tools.folder.note(
                f"{spec.label} ended early: {_told(caught).rstrip('.')}. Missing: {missing}"
            )
            if isinstance(caught, KeyboardInterrupt):
                raise
            error = caught
            if (partial := step.result()) is not None:
                done.append(partial)
            break
    servers = tuple(server.name for server in spec.servers)
    return CampaignResult(tuple(done), traffics, error, missing, unbuilt, servers)


def _traffics(
    spec: CampaignSpec, tools: Tools
) -> tuple[dict[str, Traffic], dict[str, LlmPerfError]]:
    """Build each traffic. A pair gets the very same requests, as the reference counts them."""
    traffics: dict[str, Traffic] = {}
    unbuilt: dict[str, LlmPerfError] = {}
    for recipe in spec.traffics:
        try:
            traffics[recipe.name] = tools.traffic(recipe, spec.servers[0])
        except LlmPerfError as error:
            unbuilt[recipe.name] = error
            tools.folder.note(f"{spec.label}: traffic {recipe.name} was not built: {error}")
    return traffics, unbuilt


def _told(error: BaseException) -> str:
    """Say an error: ours in its own words, another with where it came from."""
    if isinstance(error, LlmPerfError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "".join(traceback.format_exception(error)).strip()


class _Launch:
    """One launch of one server with its replays; what it has so far survives an error."""

    def __init__(
        self,
        spec: CampaignSpec,
        server: ServerSpec,
        number: int,
        traffics: Mapping[str, Traffic],
        plan: Plan,
        tools: Tools,
        progress: Progress,
    ) -> None:
        self._server = server
        self._number = number
        self._of = f"launch {number}/{plan.launches}"
        self._traffics = traffics
        self._plan = plan
        self._tools = tools
        self._progress = progress
        self._folder: LaunchFolder = tools.folder.launch(spec.label, server.name, number)
        self._running: RunningServer | None = None
        self._replays: dict[str, list[ReplayResult]] = {name: [] for name in traffics}
        self._answers: dict[str, Answers] = {}

    @property
    def replays_done(self) -> int:
        return sum(map(len, self._replays.values()))

    def run(self) -> LaunchResult:
        self._progress.step(f"{self._server.name} {self._of}: starting")
        with ExitStack() as stack:
            settings = replace(self._tools.settings, on_progress=self._progress.detail)
            running = stack.enter_context(launch(self._server, self._folder.path, settings))
            self._running = running
            self._progress.done("launch")
            self._folder.write_facts(self._server, running.facts, running.executable)
            with death_first(running):
                self._replay_all(running)
        result = self.result()
        assert result is not None  # noqa: S101 - set above; tells the type checker
        return result

    def result(self) -> LaunchResult | None:
        """Return what there is, or None where the server was never ready."""
        if self._running is None:
            return None
        facts = self._running.facts
        replays = {name: tuple(results) for name, results in self._replays.items()}
        return LaunchResult(
            self._server,
            self._number,
            facts,
            launch_figures(facts),
            replays,
            self._folder.log,
            dict(self._answers),
        )

    def _replay_all(self, running: RunningServer) -> None:
        for name, traffic in self._traffics.items():
            self._progress.step(f"{self._server.name} {self._of}: warming up with {name}")
            self._warm_up(running, traffic)
        for number in range(1, self._plan.replays + 1):
            for name, traffic in self._traffics.items():
                self._progress.step(
                    f"{self._server.name} {self._of}: {name}, replay {number}/{self._plan.replays}"
                )
                self._replays[name].append(self._replay_once(running, traffic, number))
                self._progress.done("replay")

    def _warm_up(self, running: RunningServer, traffic: Traffic) -> None:
        """Let kernels compile; then see what the server answers, since nonsense may be fast."""
        warm_up(
            traffic,
            running.target,
            work=self._folder.path,
            salt=_salt(),
            stall_timeout=self._tools.stall_timeout,
            watch=running.check_alive,
        )
        answers = probe(
            traffic,
            running.target,
            salt=_salt(),
            random_weights=argument(self._server.arguments, "--load-format") == "dummy",
            timeout=self._tools.stall_timeout,
            watch=running.check_alive,
        )
        self._folder.write_answers(traffic.spec.name, answers)
        self._answers[traffic.spec.name] = answers

    def _replay_once(self, running: RunningServer, traffic: Traffic, number: int) -> ReplayResult:
        """Replay and keep what came; once more where all that was wrong is this host's hiccup.

        Raise ServerError, with the replay kept, where the server could not be asked after it.
        """
        taken = self._take(running, traffic)
        if taken.invalid is not None and taken.invalid.kind == "client":
            self._tools.folder.note(
                f"{self._server.name}: {traffic.spec.name}, launch {self._number}, replay "
                f"{number} was not kept but repeated: {taken.invalid}"
            )
            self._progress.detail("the client was too slow: replaying once more")
            taken = self._take(running, traffic)
        figures: dict[str, float] = {}
        limited, invalid = False, taken.invalid
        try:
            figures, limited = figures_of(taken.replay), offered_limited(taken.replay)
        except Exception as error:  # noqa: BLE001 - a metric's own bug must not cost the records
            told = f"its figures could not be computed: {_told(error)}"
            invalid = invalid or Invalid("figures", told)
        reason = None if invalid is None else str(invalid)
        self._folder.write_replay(
            traffic,
            number,
            taken.replay,
            figures,
            invalid=reason,
            metrics_before=taken.before,
            metrics_after=taken.after,
        )
        if taken.lost is not None:
            raise taken.lost
        return ReplayResult(figures, reason, limited)

    def _take(self, running: RunningServer, traffic: Traffic) -> _Taken:
        before = running.metrics_text()
        measured = replay(
            traffic,
            running.target,
            work=self._folder.path,
            salt=_salt(),
            stall_timeout=self._tools.stall_timeout,
            watch=running.check_alive,
        )
        try:
            after = running.metrics_text()
        except ServerError as error:
            invalid = invalid_reason(measured, traffic.spec)
            if invalid is None or invalid.kind == "client":  # no reason to replay once more
                invalid = Invalid("server", f"the server was lost: {error}")
            return _Taken(measured, invalid, before, None, error)
        then, now = _parsed(before), _parsed(after)
        invalid = None
        if then is not None and now is not None:
            measured = replace(measured, counters=risen(then, now))
            invalid = RESTARTED if restarted(then, now) else None
        return _Taken(measured, invalid or invalid_reason(measured, traffic.spec), before, after)


@dataclass(frozen=True)
class _Taken:
    """One replay with the server's ``/metrics`` around it."""

    replay: Replay
    invalid: Invalid | None
    before: str | None
    after: str | None
    lost: ServerError | None = None
    """Why the server could not be asked afterwards."""


def _parsed(metrics: str | None) -> Counters | None:
    """Return ``/metrics`` as numbers; None where there is none or it is not Prometheus'."""
    try:
        return None if metrics is None else counters_from(metrics)
    except ValueError:
        return None


def _salt() -> str:
    """Return a fresh ``cache_salt``: every replay starts from an empty prefix cache."""
    return secrets.token_hex(8)
