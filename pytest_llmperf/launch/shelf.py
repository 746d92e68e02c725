"""Kept servers on disk: one folder each, with a lock, a log and what a session must know.

::

    .llmperf/servers/<name>/
        lock         held by the session that uses the server, and says by whom
        server.json  readable by its user alone: the server's key is in it
        server.log

``server.json`` may be stale: its server ended with its supervisor. It may also be unreadable, of
another version of this package or damaged, while its server lives. Whoever takes the lock
clears away the one and ends the other.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmperf.errors import LeaseError, ServerStopError
from pytest_llmperf.launch import family
from pytest_llmperf.launch.keeping import ENDING, holder_of, locked, mark_in, say_holder
from pytest_llmperf.launch.supervision import longest_stop
from pytest_llmperf.model.launch import LaunchFacts, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_llmperf.launch.family import Member

ASK_AGAIN_S = 0.05
MOMENT_S = 2.0
"""Seconds to get a lock that only a supervisor's look at it holds."""
TELL_AFTER_S = 1.0
TELL_AGAIN_S = 15.0
TO_DIE_S = 10.0
SUPERVISOR = b"pytest_llmperf.launch.supervisor"
"""The word on a supervisor's command line, in every version of this package."""


@dataclass(frozen=True)
class KeptServer:
    """A server that runs on.

    ``digest`` is of all that it was started with; ``idle``: the seconds without a session after
    which it ends, as the session said that started it.
    ``pid`` and ``supervisor`` come with the time of birth that tells a process from a later
    one of the same pid; ``mark`` is carried by everything that the server started.
    """

    name: str
    digest: str
    pid: tuple[int, int]
    supervisor: tuple[int, int]
    mark: str
    gpus: int
    idle: float
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
    def name(self) -> str:
        """The server's name."""
        return self.folder.name

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

    @property
    def unreadable(self) -> bool:
        """Whether there is a state that tells nothing: its server may live all the same."""
        return self.state.exists() and KeptServer.read(self.state) is None

    def take(self, patience: float, tell: Callable[[str], object] = lambda _: None) -> bool:
        """Take the lock; return whether it was to be had within ``patience`` seconds.

        ``tell`` gets a few words after a second of waiting and then now and again.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        start = time.monotonic()
        tell_at = start + TELL_AFTER_S
        while (file := locked(self.lock)) is None:
            now = time.monotonic()
            if now - start >= patience:
                return False
            if now >= tell_at:
                tell(f"waiting for kept server {self.name}: {self.holder} has it")
                tell_at = now + TELL_AGAIN_S
            time.sleep(ASK_AGAIN_S)
        self._lock = file
        say_holder(file, f"another session (pid {os.getpid()})")
        return True

    @property
    def holder(self) -> str:
        """Who has the lock."""
        return holder_of(self.lock) or "another session"

    def let_go(self) -> None:
        """Let the lock go; its time says when the server was last used."""
        if self._lock is not None:
            say_holder(self._lock, "")
            os.close(self._lock)
            self._lock = None

    def server(self, grace: float) -> KeptServer | None:
        """Return the server that lives here, with the lock held.

        What a dead one left is ended; so is one of which an unreadable state tells nothing: it is
        known by its log. Raise ServerStopError as ``end`` does.
        """
        if self.unreadable:
            self._finish(supervisors_of(self.log), mark_in(self.state), grace)
            return None
        found = KeptServer.read(self.state)
        if found is not None and not found.lives:
            self._finish((), found.mark, grace)
            return None
        return found

    def end(self, server: KeptServer, grace: float) -> None:
        """End it, with the lock held, and wait for its supervisor to have freed the GPUs.

        Raise ServerStopError for a supervisor, or anything else of it, that does not go.
        """
        found = family.member(server.supervisor[0])
        ours = found is not None and found.born == server.supervisor[1]
        self._finish((found,) if found is not None and ours else (), server.mark, grace)

    def _finish(self, supervisors: tuple[Member, ...], mark: str, grace: float) -> None:
        """End supervisors with their servers, then what is left without them, and forget it."""
        for supervisor in supervisors:
            family.send(supervisor, signal.SIGTERM)
        # pytest itself is their parent where this session has started them.
        _, stuck = family.end(
            lambda: supervisors,
            patience=longest_stop(grace),
            limit=TO_DIE_S,
            reap=lambda: _collect(supervisors),
        )
        if left := (*stuck, *family.end_marked(mark)):
            raise ServerStopError(
                f"kept server {self.name!r} left something behind that does not end: process "
                f"{', '.join(map(str, left))}. End it by hand"
            )
        self.state.unlink(missing_ok=True)


def take_shelf(
    folder: Path, name: str, patience: float, tell: Callable[[str], object] = lambda _: None
) -> Shelf:
    """Return a server's shelf with its lock taken; raise LeaseError where another has it."""
    shelf = Shelf(folder / name)
    if not shelf.take(max(patience, MOMENT_S), tell):
        holder = shelf.holder
        told, cure = f"{holder} uses it", "Wait until that session is over"
        if holder == ENDING:
            told, cure = "its supervisor is ending it after its idle time", "Run again in a moment"
        raise LeaseError(
            f"server {name!r} is kept, and {told} ({shelf.folder}). {cure}, or run this one "
            "without --llmperf-keep-servers"
        )
    return shelf


def kept_shelves(folder: Path) -> tuple[Shelf, ...]:
    """Return the shelves under a folder that have a state, the least recently used first."""
    return tuple(Shelf(path.parent) for path in sorted(folder.glob("*/server.json"), key=_used))


def kept_servers(folder: Path) -> tuple[KeptServer, ...]:
    """Return the servers that are known and live, the least recently used first."""
    found = (KeptServer.read(shelf.state) for shelf in kept_shelves(folder))
    return tuple(server for server in found if server is not None and server.lives)


def supervisors_of(log: Path) -> tuple[Member, ...]:
    """Return the supervisors whose standard error is this log: whose server's log it is."""
    return tuple(p for p in family.everyone() if p.alive and _supervises(p.pid, log))


def end_kept(shelf: Shelf, grace: float) -> bool:
    """End whatever server a shelf has, unless a session uses it; return whether it was ended."""
    if not shelf.take(MOMENT_S):
        return False
    try:
        if (found := shelf.server(grace)) is not None:
            shelf.end(found, grace)
    finally:
        shelf.let_go()
    return True


def make_room(folder: Path, but: str, grace: float) -> str | None:
    """End one kept server that holds GPUs and that nobody uses; return its name, if any is left.

    One whose state cannot be read may hold some.
    """
    for shelf in kept_shelves(folder):
        server = KeptServer.read(shelf.state)
        holds = server.lives and server.gpus > 0 if server is not None else shelf.unreadable
        if holds and shelf.name != but and end_kept(shelf, grace):
            return shelf.name
    return None


def _used(state: Path) -> float:
    with suppress(OSError):
        return state.with_name("lock").stat().st_mtime
    return 0.0


def _supervises(pid: int, log: Path) -> bool:
    process = family.PROC / str(pid)
    with suppress(OSError):
        words = (process / "cmdline").read_bytes().split(b"\0")
        return SUPERVISOR in words and (process / "fd" / "2").samefile(log)
    return False


def _alive(process: tuple[int, int]) -> bool:
    pid, born = process
    now = family.member(pid)
    return now is not None and now.born == born and now.alive


def _collect(children: tuple[Member, ...]) -> None:
    for child in children:
        with suppress(ChildProcessError):
            os.waitpid(child.pid, os.WNOHANG)
