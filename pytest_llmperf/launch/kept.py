"""A server that outlives its session: taken as it runs, or started and left running."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmperf.engines import Engine, Place
from pytest_llmperf.errors import ServerDiedError, ServerError, UsageError
from pytest_llmperf.launch import family, ports
from pytest_llmperf.launch.launcher import Launch
from pytest_llmperf.launch.leasing import gpus_needed
from pytest_llmperf.launch.readiness import Wait, wait_until_ready
from pytest_llmperf.launch.running import RunningServer
from pytest_llmperf.launch.serverlog import ServerLog
from pytest_llmperf.launch.settings import Host, LaunchSettings, arguments_here, model_here
from pytest_llmperf.launch.shelf import KeptServer, Shelf, take_shelf

if TYPE_CHECKING:
    from types import TracebackType

    from pytest_llmperf.model.server import ServerSpec

ANSWER_WITHIN_S = 30.0
INHERITED = (
    "CUDA_", "FLASHINFER_", "GLOO_", "HF_", "LD_", "LMCACHE_", "MKL_", "NCCL_", "NVIDIA_", "OMP_",
    "OPENBLAS_", "PYTHON", "PYTORCH_", "RAY_", "SAFETENSORS_", "TOKENIZERS_", "TORCH",
    "TRANSFORMERS_", "TRITON_", "VLLM_",
)  # fmt: skip
"""Beginnings of variables that a server takes from pytest's environment and behaves by.

docs/options.md lists them.
"""
NAMED = ("PATH", "HOME", "VIRTUAL_ENV", "XDG_CACHE_HOME")
"""Others by their whole names: they say which programs, settings and caches it finds."""


class KeptLaunch:
    """One session's use of a server that stays; nobody else uses it meanwhile."""

    def __init__(
        self, engine: Engine, spec: ServerSpec, folder: Path, settings: LaunchSettings, host: Host
    ) -> None:
        assert settings.keep is not None  # noqa: S101 - what this class is for
        self._engine = engine
        self._spec = spec
        self._log = folder / "server.log"
        self._settings = settings
        self._keep = settings.keep
        self._host = host
        self._shelf: Shelf | None = None

    def __enter__(self) -> RunningServer:
        digest = self._digest()
        patience = self._settings.lease_timeout
        self._shelf = shelf = take_shelf(self._keep.folder, self._spec.name, patience, self._say)
        try:
            if (found := self._usable(shelf, digest)) is not None:
                return found
            return self._started(shelf, digest)
        except BaseException:
            self._leave()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        """Copy the log so far to where the run's artifacts are, and let others use the server."""
        assert self._shelf is not None  # noqa: S101 - it has been entered
        with suppress(OSError):
            shutil.copyfile(self._shelf.log, self._log)
        self._shelf.let_go()

    def _digest(self) -> str:
        """Return a digest of all that a start of this server would depend on."""
        model = model_here(self._spec, self._settings.models)
        place = Place(self._settings.executable, model, ports.HOST, 0)
        self._engine.check(self._spec, place)
        command = self._engine.command(arguments_here(self._spec, self._settings.models), place)
        inherited = {k: v for k, v in os.environ.items() if k.startswith(INHERITED) or k in NAMED}
        parts = (
            command.argv,
            Path(command.argv[0]).stat().st_mtime_ns if os.sep in command.argv[0] else 0,
            sorted(command.environment.items()),
            sorted({**inherited, **dict(self._spec.environment)}.items()),
            self._gpus,
        )
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def _gpus(self) -> int:
        return gpus_needed(self._engine, self._spec, self._settings, self._host)

    def _usable(self, shelf: Shelf, digest: str) -> RunningServer | None:
        """Return the kept server if it is the one wanted and answers; end it otherwise."""
        grace = self._settings.stop_timeout
        if shelf.unreadable:
            self._say(f"kept server {shelf.name} has an unreadable state: it is ended")
        kept = shelf.server(grace)
        if kept is None:
            return None
        if kept.digest == digest and self._answers(kept):
            self._say(f"kept server {kept.name} (pid {kept.pid[0]}) is used again")
            return self._running(shelf, kept, known=True)
        why = "does not answer" if kept.digest == digest else "was started otherwise"
        self._say(f"kept server {kept.name} {why}: it is ended and started anew")
        shelf.end(kept, grace)
        return None

    def _answers(self, kept: KeptServer) -> bool:
        wait = Wait(time.monotonic() + ANSWER_WITHIN_S, time.sleep)
        try:
            wait_until_ready(kept.target, (kept.target.model,), wait)
        except (ServerError, UsageError):
            return False
        return True

    def _started(self, shelf: Shelf, digest: str) -> RunningServer:
        launch = Launch(self._engine, self._spec, shelf.folder, self._settings, self._host)
        with launch as running:
            pid, mark = launch.supervisor
            kept = KeptServer(
                self._spec.name,
                digest,
                _identity(running.pid),
                _identity(pid),
                mark,
                self._gpus,
                self._keep.idle,
                running.target,
                running.executable or "",
                running.facts,
            )
            kept.write(shelf.state)
            launch.hand_over(shelf, self._keep)
        self._say(f"kept server {kept.name} (pid {kept.pid[0]}) stays for later sessions")
        return self._running(shelf, kept, known=False)

    def _running(self, shelf: Shelf, kept: KeptServer, *, known: bool) -> RunningServer:
        log = ServerLog(shelf.log, self._engine, secret=kept.target.api_key or "\0")

        def check() -> None:
            if not kept.lives:
                raise ServerDiedError(
                    f"kept server {kept.name!r} has ended while it was in use:\n{log.failure()}\n"
                    f"Log: {shelf.log}"
                )

        return RunningServer(
            spec=self._spec,
            target=kept.target,
            facts=kept.known_facts if known else kept.facts,
            log=shelf.log,
            pid=kept.pid[0],
            executable=kept.executable,
            check=check,
        )

    def _say(self, text: str) -> None:
        self._settings.on_progress(text)


def _identity(pid: int | None) -> tuple[int, int]:
    """Return a process's pid and time of birth."""
    found = family.member(pid or 0)
    if found is None:
        raise ServerDiedError(f"process {pid} ended just after it was started")
    return found.pid, found.born
