"""Files are written whole or not at all."""

import fcntl
import os
import stat
import threading

import pytest

from pytest_llmperf.store import _atomic
from pytest_llmperf.store._atomic import locked, write_atomically


def test_writes_text_and_bytes(tmp_path):
    """Text is UTF-8; missing folders are made; nothing else is left beside the file."""
    path = tmp_path / "a" / "b.json"
    write_atomically(path, "µ")
    assert path.read_bytes() == b"\xc2\xb5"
    write_atomically(path, b"\x00")
    assert path.read_bytes() == b"\x00"
    assert [p.name for p in path.parent.iterdir()] == ["b.json"]


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    """A disk that fails before the rename costs nothing that was there."""
    path = tmp_path / "file"
    write_atomically(path, "old")

    def fail(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_mode_follows_the_umask(tmp_path):
    """A team reads what one of them wrote."""
    path = tmp_path / "file"
    before = os.umask(0o022)
    try:
        write_atomically(path, "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_follows_a_symbolic_link(tmp_path):
    """A link stays a link; what it points to is written."""
    target = tmp_path / "target"
    target.write_text("old")
    link = tmp_path / "link"
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def holds(folder):
    """Whether another thread gets the lock within a moment."""
    got = threading.Event()

    def take():
        with locked(folder):
            got.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    waited = not got.wait(0.2)
    return waited, thread


def test_lock_keeps_others_out(tmp_path):
    """Who comes second waits until the first is done, and no lock file is left."""
    folder = tmp_path / "new"
    with locked(folder):
        waited, thread = holds(folder)
        assert waited
    thread.join(10)
    assert not thread.is_alive()
    assert list(folder.iterdir()) == []


def test_lock_where_folders_cannot_be_locked(tmp_path, monkeypatch):
    """On NFS the lock is a file in the folder."""
    flock = fcntl.flock

    def files_only(descriptor, operation):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(9, "Bad file descriptor")
        flock(descriptor, operation)

    monkeypatch.setattr(_atomic.fcntl, "flock", files_only)
    with locked(tmp_path):
        waited, thread = holds(tmp_path)
        assert waited
    thread.join(10)
    assert not thread.is_alive()
