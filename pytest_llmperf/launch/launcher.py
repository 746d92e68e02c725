"""Launching: from a ServerSpec to a RunningServer, and back to nothing."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_llmperf.engines import ENGINES, Engine, Place
from pytest_llmperf.errors import (
    PortInUseError,
    ServerDiedError,
    ServerError,
    ServerStartError,
    ServerStopError,
)
from pytest_llmperf.launch import ports
from pytest_llmperf.launch.attached import Attached
from pytest_llmperf.launch.family import descendants
from pytest_llmperf.launch.leasing import gpus_needed, take_lease
from pytest_llmperf.launch.progress import StartProgress
from pytest_llmperf.launch.readiness import NotReadyError, Wait, complete_facts, wait_until_ready
from pytest_llmperf.launch.running import RunningServer
from pytest_llmperf.launch.serverlog import ServerLog, ended
from pytest_llmperf.launch.settings import Host, Keep, LaunchSettings, arguments_here, model_here
from pytest_llmperf.launch.supervision import Stopped, Supervision
from pytest_llmperf.model.launch import Target

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType

    from pytest_llmperf.launch.shelf import Shelf
    from pytest_llmperf.model.server import ServerSpec


def launch(
    spec: ServerSpec, folder: Path, settings: LaunchSettings
) -> AbstractContextManager[RunningServer]:
    """Return a context in which the server runs; its output goes to ``folder/server.log``.

    Entering raises UsageError for what cannot work as asked, PortInUseError, LeaseError, and
    ServerStartError for a server that died or was not ready in time. Leaving ends the server
    with everything it started and waits until its GPUs' memory is free: ServerStopError names
    what stays. An error of the body is kept; that of leaving becomes a note to it. With
    ``settings.keep`` the server may be one that runs already, and leaving leaves it running.
    """
    return launch_engine(ENGINES[spec.engine], spec, folder, settings)


def launch_engine(
    engine: Engine,
    spec: ServerSpec,
    folder: Path,
    settings: LaunchSettings,
    host: Host | None = None,
) -> AbstractContextManager[RunningServer]:
    """Do the same with an engine that need not be in the catalog, on a host described."""
    folder.mkdir(parents=True, exist_ok=True)
    if not engine.managed:
        return Attached(spec, folder, settings)
    if settings.keep is not None:
        from pytest_llmperf.launch.kept import KeptLaunch

        return KeptLaunch(engine, spec, folder, settings, host or Host())
    return Launch(engine, spec, folder, settings, host or Host())


class Launch:
    """One launch of a managed server."""

    def __init__(
        self, engine: Engine, spec: ServerSpec, folder: Path, settings: LaunchSettings, host: Host
    ) -> None:
        self._engine = engine
        self._spec = spec
        self._settings = settings
        self._host = host
        self._key = secrets.token_urlsafe(24)
        self._log = ServerLog(folder / "server.log", engine, secret=self._key)
        self._supervision: Supervision | None = None

    def __enter__(self) -> RunningServer:
        port = ports.asked_port(self._spec)
        if port is not None:
            ports.check_free(port, self._spec.name)
            return self._attempt(port)
        with ports.reserve() as held:
            try:
                return self._attempt(held.getsockname()[1])
            except PortInUseError as error:
                self._settings.on_progress(f"{error}; trying another port")
        with ports.reserve() as held:
            # Not held this time: it may be this server that does not set SO_REUSEADDR.
            port = held.getsockname()[1]
        return self._attempt(port)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop(error)

    def hand_over(self, shelf: Shelf, keep: Keep) -> None:
        """Let the server run on without this process: its supervisor alone watches it now."""
        assert self._supervision is not None  # noqa: S101 - it has been entered
        self._supervision.keep(
            shelf.lock, shelf.state, idle=keep.idle, grace=self._settings.stop_timeout
        )
        self._supervision = None

    @property
    def supervisor(self) -> tuple[int, str]:
        """The supervisor's pid, and the mark of all that it has started."""
        assert self._supervision is not None  # noqa: S101 - it has been entered
        return self._supervision.pid, self._supervision.mark

    def _attempt(self, port: int) -> RunningServer:
        place = Place(
            self._settings.executable,
            model_here(self._spec, self._settings.models),
            ports.HOST,
            port,
            self._key,
        )
        self._engine.check(self._spec, place)
        self._log.clear()
        try:
            return self._start(place)
        except BaseException as error:
            self._stop(error)
            raise

    def _start(self, place: Place) -> RunningServer:
        supervision = self._supervision = Supervision(self._log.path)
        mark = secrets.token_hex(8)
        needed = gpus_needed(self._engine, self._spec, self._settings, self._host)
        if needed:
            take_lease(supervision, self._spec, needed, self._settings, self._host, mark)
        command = self._engine.command(arguments_here(self._spec, self._settings.models), place)
        environment = {**os.environ, **command.environment, **dict(self._spec.environment)}
        try:
            pid, started = supervision.start(command.argv, environment, mark)
        except ServerError as error:
            raise ServerStartError(
                f"server {self._spec.name!r}: {error}. Log: {self._log.path}"
            ) from None
        target = self._ready(
            supervision, Target(place.host, place.port, place.model, api_key=self._key), started
        )
        startup = time.monotonic() - started
        if (other := ports.stranger(place.port, pid, self._relatives(supervision))) is not None:
            raise PortInUseError(
                f"server {self._spec.name!r} lost its port {place.port}: process {other} answers"
            )
        facts = replace(self._log.facts(), startup_s=round(startup, 3))
        return RunningServer(
            spec=self._spec,
            target=target,
            facts=complete_facts(facts, target),
            log=self._log.path,
            pid=pid,
            executable=command.argv[0],
            check=lambda: self._check(supervision),
        )

    def _relatives(self, supervision: Supervision) -> set[int]:
        return {process.pid for process in descendants(supervision.pid)}

    # -- readiness and life ------------------------------------------------------------------

    def _ready(self, supervision: Supervision, target: Target, started: float) -> Target:
        """Wait until the server has answered; raise ServerStartError or PortInUseError."""
        progress = StartProgress(self._log, self._settings.on_progress)

        def pause(seconds: float) -> None:
            supervision.listen(seconds)
            progress.tell()
            self._raise_if_ended(supervision)

        timeout = self._settings.startup_timeout
        try:
            return wait_until_ready(target, (), Wait(started + timeout, pause))
        except NotReadyError as late:
            raise ServerStartError(
                f"server {self._spec.name!r} was not ready after {timeout:g} s: {late}.\n"
                f"Its log ends with:\n{self._log.tail()}\nRaise --llmperf-startup-timeout if it "
                f"only needs longer. Log: {self._log.path}"
            ) from None
        except (PortInUseError, ServerStartError):
            raise
        except ServerError as error:
            raise ServerStartError(
                f"server {self._spec.name!r} does not serve: {error}. Log: {self._log.path}"
            ) from None

    def _raise_if_ended(self, supervision: Supervision) -> None:
        if supervision.exit_code is None and not supervision.lost:
            return
        reason = self._log.failure()
        if "address already in use" in reason.lower():
            raise PortInUseError(f"server {self._spec.name!r} did not get its port:\n{reason}")
        raise ServerStartError(
            f"server {self._spec.name!r} {ended(supervision)} before it was ready:\n{reason}\n"
            f"Log: {self._log.path}"
        )

    def _check(self, supervision: Supervision) -> None:
        supervision.listen()
        if supervision.exit_code is not None or supervision.lost:
            reason = "" if supervision.exit_code is None else f":\n{self._log.failure()}"
            raise ServerDiedError(
                f"server {self._spec.name!r} {ended(supervision)} while it was in use{reason}\n"
                f"Log: {self._log.path}"
            )

    # -- the end -------------------------------------------------------------------------------

    def _stop(self, error: BaseException | None) -> None:
        """End everything; raise ServerStopError, or note it to the error under way."""
        supervision, self._supervision = self._supervision, None
        if supervision is None:
            return
        stopped = supervision.stop(self._settings.stop_timeout)
        if stopped.overstayed:
            self._settings.on_progress(
                f"{self._spec.name} did not end within {self._settings.stop_timeout:g} s of "
                "SIGTERM and was killed"
            )
        if remains := _remains(stopped):
            problem = ServerStopError(
                f"server {self._spec.name!r} left something behind: {remains}. Launches on this "
                f"host are not to be trusted before that is gone. Log: {self._log.path}"
            )
            if error is None:
                raise problem
            error.add_note(str(problem))


def _remains(stopped: Stopped) -> str:
    left = [f"process {process} does not end" for process in stopped.left]
    return "; ".join([*left, *stopped.occupied])
