"""Finding and ending every process that a server brought into the world.

A server's children may leave its process group and session, and outlive it. They are found
twice: as descendants of the supervisor (a child subreaper, so that orphans become its
children), and by the mark that every one of them inherits in its environment, which also
works once the supervisor is gone. Standard library only: the supervisor starts with this.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MARK = "LLMPERF_LAUNCH"
"""The environment variable that marks a launch's processes."""

ENVIRONMENT = {"SPT_NOENV": "1"}
"""Keeps setproctitle (vLLM names its processes) from writing over the environment in /proc."""

PROC = Path("/proc")
BORN = 19
"""Where ``stat`` has the time of birth, counted from the state on: its field 22."""
LOOK_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class Member:
    """A process. ``born`` (clock ticks since boot) tells it from a later one of the same pid."""

    pid: int
    parent: int
    state: str
    born: int
    name: str

    @property
    def alive(self) -> bool:
        """Whether it still runs: a zombie only waits to be reaped."""
        return self.state not in "ZX"

    def __str__(self) -> str:
        return f"{self.pid} ({self.name})"


def member(pid: int) -> Member | None:
    """Return the process of that pid, None where there is none."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold any character, parentheses too.
    name, _, rest = stat.partition("(")[2].rpartition(") ")
    fields = rest.split()
    born = int(fields[BORN]) if len(fields) > BORN else 0  # some sandboxes tell less
    return Member(pid, int(fields[1]), fields[0], born, name)


def everyone() -> tuple[Member, ...]:
    """Return all processes that can be seen."""
    found = (member(int(path.name)) for path in PROC.iterdir() if path.name.isdigit())
    return tuple(process for process in found if process is not None)


def descendants(root: int) -> tuple[Member, ...]:
    """Return the children of ``root``, theirs, and so on."""
    children: dict[int, list[Member]] = {}
    for process in everyone():
        children.setdefault(process.parent, []).append(process)
    result: list[Member] = []
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            result.append(child)
            waiting.append(child.pid)
    return tuple(result)


def marked(mark: str) -> tuple[Member, ...]:
    """Return this user's processes whose environment carries the mark of a launch."""
    wanted = f"{MARK}={mark}".encode()
    result: list[Member] = []
    for process in everyone():
        try:
            environment = (PROC / str(process.pid) / "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            result.append(process)
    return tuple(result)


def send(process: Member, number: signal.Signals) -> None:
    """Send a signal to this process, and not to a later one that was given its pid."""
    now = member(process.pid)
    if now is not None and now.born == process.born:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def _lives(process: Member) -> bool:
    now = member(process.pid)
    return now is not None and now.born == process.born and now.alive


def end(
    find: Callable[[], Iterable[Member]],
    *,
    patience: float,
    limit: float,
    reap: Callable[[], object] = lambda: None,
) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
    """End all processes that ``find`` finds, until it finds none and none of them lives.

    One that is being killed loses its environment, and with it its mark, before it lets go of
    its memory: who was found once is looked after to the end. They have ``patience`` seconds
    to go by themselves, then SIGKILL; after ``limit`` more seconds this gives up. Return those
    that were killed and those that are left.
    """
    known: dict[tuple[int, int], Member] = {}  # its state, parent and name may change
    killed: dict[tuple[int, int], Member] = {}
    ask_until = time.monotonic() + patience
    give_up_at = ask_until + limit
    while True:
        reap()
        known |= {(process.pid, process.born): process for process in find()}
        known = {key: process for key, process in known.items() if _lives(process)}
        alive = tuple(known[key] for key in sorted(known))
        now = time.monotonic()
        if not alive or now >= give_up_at:
            return tuple(killed.values()), alive
        if now >= ask_until:
            for process in alive:
                killed[process.pid, process.born] = process
                send(process, signal.SIGKILL)
        time.sleep(LOOK_AGAIN_S)


def end_marked(mark: str, *, limit: float = 10.0) -> tuple[Member, ...]:
    """Kill what is left of a launch whose supervisor is gone; return what does not go."""
    return end(lambda: marked(mark), patience=0.0, limit=limit)[1]
