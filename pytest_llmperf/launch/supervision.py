"""pytest's end of a supervisor: orders down one pipe, events up the other."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest_llmperf
from pytest_llmperf.errors import ServerError, ServerStartError
from pytest_llmperf.launch import family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_llmperf.launch.lease import Candidate

READY_S = 30.0
"""Seconds for a supervisor to answer: long only on a host that is starved."""
AFTER_GRACE_S = 120.0
"""Seconds beyond a server's grace within which a supervisor has finished or given up.

A grace of more than a minute is given to the memory as well, and so counts twice.
"""


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a launch ended. All empty and False for a server that left when it was asked to.

    ``overstayed``: it did not end on SIGTERM. ``killed``: relatives that had to be.
    ``left``: processes that did not go. ``occupied``: GPUs that are not free again.
    """

    overstayed: bool = False
    killed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    occupied: tuple[str, ...] = ()


class Refused(Exception):  # noqa: N818 - an answer within this package, never shown
    """The supervisor got no lease. ``swept``: it ended remains just now, so ask again."""

    def __init__(self, why: str, *, swept: bool) -> None:
        super().__init__(why)
        self.swept = swept


class Supervision:
    """Starts a supervisor and speaks with it. May be asked from any thread.

    ``log`` takes the output of the server, and of the supervisor if it fails.
    """

    def __init__(self, log: Path) -> None:
        self._lock = threading.Lock()
        self._buffer = b""
        self._events: list[dict[str, Any]] = []
        self._mark = ""
        self.exit_code: int | None = None
        """The server's exit code, negative for a signal, as far as it is known."""
        self.lost = False
        """Whether the supervisor ended without being told to."""
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pytest_llmperf.launch.supervisor"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": _python_path()},
            )

    @property
    def mark(self) -> str:
        """What the launch's processes carry in their environment."""
        return self._mark

    @property
    def pid(self) -> int:
        """The supervisor's pid."""
        return self._process.pid

    def lease(
        self,
        folder: Path,
        candidates: Sequence[Candidate],
        count: int,
        holder: Mapping[str, Any],
    ) -> None:
        """Take a lease on ``count`` of the candidates; raise Refused where too few are free."""
        self._tell(
            do="lease",
            folder=str(folder),
            candidates=[asdict(candidate) for candidate in candidates],
            count=count,
            holder=dict(holder),
        )
        answer = self._expect("leased", "refused")
        if answer["event"] == "refused":
            raise Refused(answer["why"], swept=answer["swept"])

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], mark: str
    ) -> tuple[int, float]:
        """Start the server; return its pid and when (``time.monotonic``)."""
        self._mark = mark
        self._tell(do="start", argv=list(argv), environment=dict(environment), mark=mark)
        answer = self._expect("started", "failed")
        if answer["event"] == "failed":
            raise ServerStartError(f"{argv[0]} cannot be started: {answer['why']}")
        return answer["pid"], answer["at"]

    def listen(self, timeout: float = 0.0) -> None:
        """Take in what the supervisor says, waiting so long for it to say something."""
        with self._lock:
            self._listen(timeout)

    def stop(self, grace: float) -> Stopped:
        """End the server and everything it started, then the supervisor.

        Should the supervisor be gone already, what carries the launch's mark is ended here.
        """
        try:
            self._tell(do="stop", grace=grace)
            said = self._expect("stopped", timeout=longest_stop(grace))
        except ServerError:
            left = family.end_marked(self._mark) if self._mark else ()
            return Stopped(overstayed=not self.lost, left=tuple(map(str, left)))
        finally:
            self._close()
        return Stopped(
            said["overstayed"],
            tuple(said["killed"]),
            tuple(said["left"]),
            tuple(said["occupied"]),
        )

    def keep(self, lock: Path, state: Path, *, idle: float, grace: float) -> None:
        """Have the supervisor go on without this process, and let go of it.

        It ends the server once ``lock`` was free for ``idle`` seconds; ``state`` goes with it.
        """
        self._tell(do="keep", lock=str(lock), state=str(state), idle=idle, grace=grace)
        self._expect("kept")
        self._close_pipes()
        self._process.returncode = 0  # it goes on in the background

    def _tell(self, **order: Any) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.lost = True
            raise ServerError(self._gone()) from None

    def _expect(self, *events: str, timeout: float = READY_S) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        with self._lock:
            while True:
                for event in self._events:
                    if event["event"] in events:
                        self._events.remove(event)
                        return event
                rest = deadline - time.monotonic()
                if self.lost:
                    raise ServerError(self._gone())
                if rest <= 0:
                    raise ServerError(f"the supervisor (pid {self.pid}) does not answer")
                self._listen(rest)

    def _listen(self, timeout: float) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        if self._process.stdout.closed:
            return
        pipe = self._process.stdout.fileno()
        if not select.select([pipe], [], [], timeout)[0]:
            return
        chunk = os.read(pipe, 1 << 16)
        self.lost = self.lost or not chunk
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for event in map(json.loads, lines):
            if event["event"] == "exited":
                self.exit_code = event["code"]
            else:
                self._events.append(event)

    def _gone(self) -> str:
        return f"the supervisor (pid {self.pid}) ended unasked; its last words are in the log"

    def _close(self) -> None:
        """Close both pipes, which is an order to stop too, and collect the supervisor."""
        self._close_pipes()
        try:
            self._process.wait(READY_S)
        except subprocess.TimeoutExpired:
            self._process.returncode = 0  # it goes on in the background, until all is freed

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


def longest_stop(grace: float) -> float:
    """Return the seconds within which a supervisor has finished or given up."""
    return grace + max(AFTER_GRACE_S, grace + AFTER_GRACE_S / 2)


def _python_path() -> str:
    """Where this package lies, first: pytest may have found it through its own settings."""
    root = str(Path(pytest_llmperf.__file__).parent.parent)
    return os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
