"""``--llmperf-plan``, and the two lines of it before a session starts to measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf import gpu
from pytest_llmperf.campaign import CampaignSpec, Plan
from pytest_llmperf.campaign.plan import Known, SessionPlan, Wish, plan_session
from pytest_llmperf.campaign.plan_text import plan_lines, sight_line, total_line
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import LlmPerfError, UnknownNameError
from pytest_llmperf.launch.settings import arguments_here
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.store.baselines import BaselineStore
from pytest_llmperf.store.costs import PastRuns
from pytest_llmperf.store.recipes import machines

if TYPE_CHECKING:
    from pytest_llmperf.plugin.session import Session


class Planner:
    """Makes the plan of a session and tells it."""

    def __init__(self, session: Session, plan: Plan) -> None:
        self._session = session
        self._plan = plan
        self._store = BaselineStore(session.option("baselines"))
        self._notes: list[str] = []

    def tell(self, reporter: pytest.TerminalReporter) -> None:
        """Write the whole plan; raise pytest.UsageError where it cannot be made."""
        try:
            plan = self._made()
        except LlmPerfError as error:
            raise pytest.UsageError(str(error)) from None
        reporter.section("llmperf plan", sep="=")
        lines = plan_lines(plan) or ["no test that uses a llm_… fixture is selected"]
        lines += [*self._notes, *self._unused_models()]
        lines.append(f"total: {total_line(plan)}")
        lines += filter(None, [sight_line(plan)])
        skipped = Counter(self._session.collected.skipped)
        lines += [f"skipped: {count} × {reason}" for reason, count in skipped.items()]
        for line in lines:
            reporter.write_line(line)

    def foretell(self, say: Callable[[str], None]) -> None:
        """Say in two lines what the session is about to cost and will be able to see.

        A line more for each ``--llmperf-model`` that no server uses.
        """
        for line in self._unused_models():
            say(line)
        try:
            plan = self._made()
        except Exception as error:  # noqa: BLE001 - what cannot be foretold must not cost a night
            say(f"plan: not to be had: {error}")
            return
        say(f"plan: {total_line(plan)}")
        if (sight := sight_line(plan)) is not None:
            say(f"plan: {sight}")

    def _made(self) -> SessionPlan:
        collected = self._session.collected
        wishes = [
            Wish(CampaignSpec(servers, tuple(traffics)), collected.gates.get(servers, {}))
            for servers, traffics in collected.campaigns.items()
        ]
        known = Known(PastRuns(self._session.option("runs")), self._store, self._machine_source())
        return plan_session(
            wishes,
            collected.own,
            self._plan,
            known,
            judged=collected.judged,
            alpha=collected.alpha,
        )

    def _unused_models(self) -> list[str]:
        """Return a line for each mapped model that is no collected server's.

        No error: one ini file serves several suites.
        """
        collected = self._session.collected
        servers = [*collected.servers, *collected.own]
        return [
            f"--llmperf-model {name}={path}: no selected server uses {name!r}, is it misspelt?"
            for name, path in self._session.option("model").items()
            if not any(_uses(server, name, path) for server in servers)
        ]

    def _machine_source(self) -> Callable[[ServerSpec], Machine | None]:
        """Return what tells a server's machine: this host's, or for want of GPUs a stored one."""
        collected = self._session.collected
        asked: str | None = self._session.option("plan-machine")
        on_gpus = [s for s in (*collected.servers, *collected.own) if ENGINES[s.engine].uses_gpu]
        if not on_gpus or (asked is None and gpu.gpus()):
            return self._session.machine
        stored = self._stored_machine(asked)
        return lambda server: (
            stored if ENGINES[server.engine].uses_gpu else self._session.machine(server)
        )

    def _stored_machine(self, asked: str | None) -> Machine | None:
        """Return the machine asked for, or the only one; note which, or why there is none."""
        stored = {
            key: machine
            for key, machine in machines(self._store).items()
            if machine.gpu_model and not machine.simulated
        }
        if asked is not None:
            if asked not in stored:
                raise UnknownNameError("machine for --llmperf-plan-machine", asked, stored)
            self._notes.append(f"machine: {asked}, as asked")
            return stored[asked]
        if len(stored) == 1:
            ((key, machine),) = stored.items()
            self._notes.append(
                f"machine: this host has no GPU; {key} is taken, the only one in {self._store.root}"
            )
            return machine
        which = f"choose one with --llmperf-plan-machine: {', '.join(stored)}" if stored else ""
        self._notes.append(
            "machine: this host has no GPU, so its baselines and its noise are not known; "
            + (which or f"none of a GPU machine is in {self._store.root}")
        )
        return None


def _uses(server: ServerSpec, name: str, path: str) -> bool:
    """Whether a mapped model is the server's, or one that its arguments name."""
    return server.model == name or arguments_here(server, {name: path}) != server
