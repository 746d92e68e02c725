from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.replay.connections import Connection, prepare
from pytest_llmperf.replay.spool import BLOCK, BYTES, READS, Spool, SpoolError
from pytest_llmperf.replay.stamps import load_reads

if TYPE_CHECKING:
    from pathlib import Path


def ignore(_conn: Connection, _mask: int) -> None:
    pass


def connected() -> tuple[socket.socket, Connection]:
    """Return a server's socket and the client's connection to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = socket.create_connection(listener.getsockname())
        prepare(sock)
        server, _ = listener.accept()
    return server, Connection(sock, ignore, 0)


def test_reads_and_bytes_come_back_from_disk(tmp_path: Path) -> None:
    """More than a buffer's worth over two requests: every byte, in order, with its read."""
    server, conn = connected()
    spool = Spool(tmp_path)
    sent = bytearray()
    before = time.monotonic_ns()
    with server, conn.sock:
        for number in range(40):
            piece = bytes([number]) * 8192
            server.sendall(piece)
            sent += piece
            conn.request = number % 2
            left = len(piece)
            while left:
                left -= spool.receive(conn)
                assert len(spool.buffer) > spool.at
    spool.close()
    after = time.monotonic_ns()
    reads = load_reads(tmp_path / READS)
    assert (tmp_path / BYTES).read_bytes() == bytes(sent)
    assert len(sent) > BLOCK
    assert spool.received == int(reads.length.sum()) == 40 * 8192
    assert set(reads.request.tolist()) == {0, 1}
    assert before < reads.clock_ns.min() <= reads.clock_ns.max() < after
    assert sorted(reads.clock_ns.tolist()) == reads.clock_ns.tolist()


def test_a_full_disk_is_no_broken_connection(tmp_path: Path) -> None:
    """What the disk refuses ends the replay; it must not pass for the server's failure."""
    (tmp_path / BYTES).symlink_to("/dev/full")
    spool = Spool(tmp_path)
    spool.at = BLOCK
    with pytest.raises(SpoolError, match="No space left"):
        spool.close()
    with pytest.raises(SpoolError, match="No space left"):
        spool.flush()


def test_a_short_replay_touches_no_disk_before_it_is_over(tmp_path: Path) -> None:
    """What fits is held; all of it is there once the spool is closed."""
    server, conn = connected()
    conn.request = 0
    spool = Spool(tmp_path)
    with server, conn.sock:
        server.sendall(b"x" * 1000)
        assert spool.receive(conn) == 1000
        spool.flush()
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0
    spool.close()
    assert (tmp_path / BYTES).read_bytes() == b"x" * 1000


def test_the_loop_does_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes nothing for a while: reads go on, and all is there in the end."""
    monkeypatch.setattr("pytest_llmperf.replay.spool.HELD_BLOCKS", 1)
    os.mkfifo(tmp_path / BYTES)  # opening it blocks the writer until somebody reads
    server, conn = connected()
    conn.request = 0
    spool = Spool(tmp_path)
    with server, conn.sock:
        for _ in range(60):
            server.sendall(bytes(8192))
            left = 8192
            while left:
                left -= spool.receive(conn)
    kept: list[bytes] = []
    reader = threading.Thread(target=lambda: kept.append((tmp_path / BYTES).read_bytes()))
    reader.start()
    spool.close()
    reader.join(10)
    assert len(kept[0]) == 60 * 8192
    assert int(load_reads(tmp_path / READS).length.sum()) == 60 * 8192
