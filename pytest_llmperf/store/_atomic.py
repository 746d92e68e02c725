"""Writing files so that a reader, or a crash, never meets half of one."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


def write_atomically(path: Path, data: bytes | str) -> None:
    """Make ``path`` hold ``data``, or leave it as it was. Text is UTF-8.

    Missing folders are made. The bytes reach the disk under a temporary name beside the file
    before they take its place, and the folder is synced after, so that a power cut leaves the
    old file or the new one. A symbolic link is followed. Raises OSError as the disk gives it.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    payload = data.encode() if isinstance(data, str) else data
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        # 0o666 leaves the mode to the umask; tempfile's 0o600 would keep a team from its file.
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb"
        ) as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold ``folder`` for this process alone among all that lock it; wait for it.

    The lock is on the folder itself (made where missing), so that no lock file is left in a
    repository; where the file system cannot lock a folder (NFS), on a file ``.lock`` in it.
    The kernel lets it go however the process ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as open_files:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        open_files.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            open_files.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Some network file systems cannot sync a folder; the file itself is safe there.
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
