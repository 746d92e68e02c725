"""Kept servers on disk: one folder each, with a lock, a log and what a session must know.

::

    .llmperf/servers/<name>/
        lock         held by the session that uses the server
        server.json  readable by its user alone: the server's key is in it
        server.log

``server.json`` may be stale: its server ended with its supervisor. Whoever takes the lock
clears it away.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_llmperf.errors import LeaseError, ServerStopError
from pytest_llmperf.launch import family
from pytest_llmperf.launch.keeping import locked
from pytest_llmperf.launch.supervision import longest_stop
from pytest_llmperf.model.launch import LaunchFacts, Target

ASK_AGAIN_S = 0.05
MOMENT_S = 2.0
"""Seconds to get a lock that only a supervisor's look at it holds."""
TO_DIE_S = 10.0


@dataclass(frozen=True)
class KeptServer:
    """A server that runs on. ``digest`` is of all that it was started with.

    ``pid`` and ``supervisor`` come with the time of birth that tells a process from a later
    one of the same pid; ``mark`` is carried by everything that the server started.
    """

    name: str
    digest: str
    pid: tuple[int, int]
    supervisor: tuple[int, int]
    mark: str
    gpus: int
    target: Target
    executable: str
    facts: LaunchFacts = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> KeptServer | None:
        """Return what a file tells of a server, None where it tells of none."""
        try:
            data: dict[str, Any] = json.loads(path.read_bytes())
            return cls(
                **{
                    **data,
                    "pid": tuple(data["pid"]),
                    "supervisor": tuple(data["supervisor"]),
                    "target": Target(**data["target"]),
                    "facts": LaunchFacts(**data["facts"]),
                }
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, path: Path) -> None:
        """Write it, whole, for this user alone."""
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(self), file)
        new.replace(path)

    @property
    def lives(self) -> bool:
        """Whether server and supervisor are still there."""
        return all(map(_alive, (self.pid, self.supervisor)))

    @property
    def known_facts(self) -> LaunchFacts:
        """What holds for a session that did not start it: all but the start-up."""
        return replace(self.facts, startup_s=None, phases={}, cold=None)


class Shelf:
    """The folder of one kept server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._lock: int | None = None

    @property
    def lock(self) -> Path:
        """What a session holds while it uses the server."""
        return self.folder / "lock"

    @property
    def state(self) -> Path:
        """What tells of the server."""
        return self.folder / "server.json"

    @property
    def log(self) -> Path:
        """The server's output."""
        return self.folder / "server.log"

    def take(self, patience: float) -> bool:
        """Take the lock; return whether it was to be had within ``patience`` seconds."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        deadline = time.monotonic() + patience
        while (file := locked(self.lock)) is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(ASK_AGAIN_S)
        self._lock = file
        return True

    def let_go(self) -> None:
        """Let the lock go; its time says when the server was last used."""
        if self._lock is not None:
            os.utime(self._lock)
            os.close(self._lock)
            self._lock = None

    def server(self) -> KeptServer | None:
        """Return the server that lives here. The lock is held: what a dead one left is ended."""
        found = KeptServer.read(self.state)
        if found is None and self.state.exists():
            # Of another version, or damaged: its supervisor ends once its server is gone.
            family.end_marked(_mark_in(self.state))
            self.state.unlink()
        if found is not None and not found.lives:
            self.clear(found)
            return None
        return found

    def end(self, server: KeptServer, grace: float) -> None:
        """End it, with the lock held, and wait for its supervisor to have freed the GPUs.

        Raise ServerStopError for a supervisor, or anything else of it, that does not go.
        """
        supervisor = family.member(server.supervisor[0])
        if supervisor is not None and supervisor.born == server.supervisor[1]:
            family.send(supervisor, signal.SIGTERM)
            # pytest itself is its parent where this session has started it.
            family.end(
                lambda: [supervisor],
                patience=longest_stop(grace),
                limit=TO_DIE_S,
                reap=lambda: _collect(supervisor.pid),
            )
        self.clear(server)

    def clear(self, server: KeptServer) -> None:
        """End what is left of it without its supervisor, and forget it."""
        if left := family.end_marked(server.mark):
            raise ServerStopError(
                f"kept server {server.name!r} left something behind that does not end: process "
                f"{', '.join(map(str, left))}. End it by hand"
            )
        self.state.unlink(missing_ok=True)


def take_shelf(folder: Path, name: str, patience: float) -> Shelf:
    """Return a server's shelf with its lock taken; raise LeaseError where another has it."""
    shelf = Shelf(folder / name)
    if not shelf.take(max(patience, MOMENT_S)):
        raise LeaseError(
            f"server {name!r} is kept, and another session uses it ({shelf.folder}). Wait until "
            "that session is over, or run this one without --llmperf-keep-servers"
        )
    return shelf


def kept_servers(folder: Path) -> tuple[KeptServer, ...]:
    """Return the servers that are kept under a folder and live, the least recently used first."""
    paths = sorted(folder.glob("*/server.json"), key=_used)
    found = (KeptServer.read(path) for path in paths)
    return tuple(server for server in found if server is not None and server.lives)


def end_kept(folder: Path, server: KeptServer, grace: float) -> bool:
    """End a kept server, unless a session uses it; return whether it was ended."""
    shelf = Shelf(folder / server.name)
    if not shelf.take(MOMENT_S):
        return False
    try:
        if (found := shelf.server()) is not None:
            shelf.end(found, grace)
    finally:
        shelf.let_go()
    return True


def make_room(folder: Path, but: str, grace: float) -> str | None:
    """End one kept server that holds GPUs and that nobody uses; return its name, if any is left."""
    for server in kept_servers(folder):
        if server.gpus and server.name != but and end_kept(folder, server, grace):
            return server.name
    return None


def _used(state: Path) -> float:
    with suppress(OSError):
        return state.with_name("lock").stat().st_mtime
    return 0.0


def _mark_in(state: Path) -> str:
    with suppress(OSError, ValueError, TypeError, KeyError):
        return str(json.loads(state.read_bytes())["mark"])
    return "\0"  # which no environment can hold


def _alive(process: tuple[int, int]) -> bool:
    pid, born = process
    now = family.member(pid)
    return now is not None and now.born == born and now.alive


def _collect(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
