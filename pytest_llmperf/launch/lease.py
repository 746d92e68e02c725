"""GPU leases: a file lock a GPU, which other pytest-llmperf sessions on the host respect.

The kernel lets a lock go when its holder dies, however it died. A lock's file says who holds
it; what it says while nobody does was left by a holder that could not clean up, and the
processes it names are ended before the GPU is used. Standard library only.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmperf.launch import family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = Path("/tmp/pytest-llmperf-leases")  # noqa: S108 - one place for all users of a host
EVERYONE = 0o1777
ANY_USER = 0o666


@dataclass(frozen=True, slots=True)
class Candidate:
    """A GPU that may be leased, with the bytes in use on it and a name for messages."""

    index: int
    uuid: str
    name: str
    used: int
    busy: str = ""
    """Why it cannot be leased although nobody holds it: who uses it."""

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.name})"


class Refusal(Exception):  # noqa: N818 - an answer within this package, never shown
    """Too few GPUs are free. The message says of each other one why.

    ``swept``: processes that an earlier launch left were ended just now, so ask again.
    """

    def __init__(self, reasons: Sequence[str], *, swept: bool) -> None:
        super().__init__("; ".join(reasons))
        self.swept = swept


class Lease:
    """Locks on GPUs. ``gpus`` are in the order in which the server sees them."""

    def __init__(self, gpus: tuple[Candidate, ...], files: tuple[int, ...]) -> None:
        self.gpus = gpus
        self._files = files

    @classmethod
    def take(
        cls, folder: Path, candidates: Sequence[Candidate], count: int, holder: Mapping[str, Any]
    ) -> Lease:
        """Lock the first ``count`` GPUs that are free, or none; raise Refusal then."""
        taken: list[tuple[Candidate, int]] = []
        reasons: list[str] = []
        swept = False
        for candidate in candidates:
            if len(taken) == count:
                break
            file = _locked(folder, candidate.uuid)
            if isinstance(file, str):
                reasons.append(f"{candidate}: {file}")
                continue
            if launch := _read(file).get("launch"):
                # Its holder died without cleaning up; what it started may hold memory still.
                swept = True
                family.end_marked(str(launch))
                _write(file, "")
            if candidate.busy:
                reasons.append(f"{candidate}: {candidate.busy}")
                os.close(file)
                continue
            taken.append((candidate, file))
        lease = cls(tuple(gpu for gpu, _ in taken), tuple(file for _, file in taken))
        if len(taken) < count:
            lease.release()
            raise Refusal(reasons, swept=swept)
        for file in lease._files:
            _write(file, json.dumps(dict(holder)))
        return lease

    def release(self) -> None:
        """Let the locks go, with nothing left in them."""
        for file in self._files:
            _write(file, "")
            os.close(file)
        self._files = ()


def _locked(folder: Path, uuid: str) -> int | str:
    """Return a GPU's lock file, open and locked; who holds it, where somebody does."""
    while True:
        file, path = _open(folder, uuid)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _held_by(_read(file))
            os.close(file)
            return holder
        if _is_still(file, path):
            return file
        os.close(file)  # somebody cleaned up the folder meanwhile: this lock would be alone


def _open(folder: Path, uuid: str) -> tuple[int, Path]:
    """Open a lock file for reading and writing, made for all users of the host."""
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
        folder.chmod(EVERYONE)
    path = folder / f"{re.sub(r'[^A-Za-z0-9-]', '_', uuid)}.lock"
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # Without O_CREAT first: kernels refuse it for another user's file in a sticky folder.
        return os.open(path, flags), path
    except FileNotFoundError:
        with suppress(FileExistsError):
            file = os.open(path, flags | os.O_CREAT | os.O_EXCL, ANY_USER)
            os.fchmod(file, ANY_USER)
            return file, path
        return os.open(path, flags), path


def _is_still(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _read(file: int) -> dict[str, Any]:
    try:
        content = json.loads(os.pread(file, 4096, 0) or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _write(file: int, text: str) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, text.encode(), 0)


def _held_by(content: Mapping[str, Any]) -> str:
    if not content:
        return "leased by another session"
    server, since, user = (content.get(name) for name in ("server", "since", "user"))
    if kept := content.get("kept"):
        return (
            f"leased since {since} by server {server!r} ({user}), kept in {kept}: pytest "
            "--llmperf-stop-servers ends it, run in its project"
        )
    return f"leased since {since} by server {server!r} of pid {content.get('pid')} ({user})"
