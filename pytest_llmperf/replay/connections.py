"""The connections of a replay: opened before they are needed, so that no TTFT holds one.

A server closes a connection that was idle for some seconds (uvicorn: 5), and a request
written to it just then is lost. So an idle connection is trusted for 3 s only, the oldest
is taken first (which keeps all of them young) and fresh ones are opened ahead.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

Handler = Callable[["Connection", int], None]
Address = tuple[int, Any]
"""Family and socket address of a server."""

TRUSTED_NS = 3_000_000_000
OPENING = 128
"""Handshakes under way at once: a server's backlog may be no longer than that."""

SPARE_DESCRIPTORS = 64
MOST_DESCRIPTORS = 65536
SO_TIMESTAMPNS = 35
"""Linux: the kernel's receive time comes with ``recvmsg`` (socket(7)); unnamed in Python."""

CONNECT_NS = 10_000_000_000


class Connection:
    """One socket and what is under way on it. ``handle`` answers its next event."""

    __slots__ = (
        "fd",
        "handle",
        "head",
        "heard_ns",
        "idle_ns",
        "keeps_open",
        "left",
        "receive",
        "refusal",
        "request",
        "served",
        "sock",
        "tail",
        "unsent",
    )

    def __init__(self, sock: socket.socket, handle: Handler, now: int) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.receive = sock.recvmsg_into
        self.handle = handle
        self.heard_ns = self.idle_ns = now
        self.request = -1
        self.served = 0
        self.refusal = 0
        self.keeps_open = True
        self.left = 0
        self.head = b""
        self.tail: bytes | bytearray = b""
        self.unsent: memoryview | None = None


class Pool:
    """Opens, lends and takes back connections to one address. ``busy`` holds the lent ones."""

    def __init__(self, address: Address, epoll: select.epoll, limit: int) -> None:
        self.address = address
        self.limit = limit
        self.all: dict[int, Connection] = {}
        self.connecting = 0
        self._epoll = epoll
        self._idle: deque[Connection] = deque()

    def open(self, handle: Handler) -> None:
        """Start a handshake, unless as many connections are open as may be."""
        if len(self.all) >= self.limit:
            return
        family, address = self.address
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        prepare(sock)
        conn = Connection(sock, handle, time.monotonic_ns())
        conn.refusal = sock.connect_ex(address)
        self._epoll.register(conn.fd, select.EPOLLIN | select.EPOLLOUT)
        self.all[conn.fd] = conn
        self.connecting += 1

    def opened(self, conn: Connection) -> str | None:
        """Take note that a handshake has ended; return why it failed, None if it did not."""
        code = conn.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if conn.refusal not in (0, errno.EINPROGRESS):
            code = conn.refusal
        self.connecting -= 1
        if code:
            self.close(conn)
            return os.strerror(code)
        self.await_data(conn)
        return None

    def await_room(self, conn: Connection) -> None:
        """Wait for room to write, as well as for data."""
        self._epoll.modify(conn.fd, select.EPOLLIN | select.EPOLLOUT)

    def await_data(self, conn: Connection) -> None:
        """Wait for data alone."""
        self._epoll.modify(conn.fd, select.EPOLLIN)

    def give(self, conn: Connection, now: int) -> None:
        """Take a connection that has nothing under way."""
        conn.request = -1
        conn.idle_ns = now
        self._idle.append(conn)

    def take(self, now: int) -> Connection | None:
        """Lend the oldest trusted idle connection, closing those that are too old."""
        while self._idle:
            conn = self._idle.popleft()
            if now - conn.idle_ns < TRUSTED_NS:
                return conn
            self.close(conn)
        return None

    def ready(self, at: int) -> int:
        """Close what will be too old at that time; return how many idle ones are left."""
        while self._idle and at - self._idle[0].idle_ns >= TRUSTED_NS:
            self.close(self._idle.popleft())
        return len(self._idle)

    def drop(self, conn: Connection) -> None:
        """Close an idle connection."""
        self._idle.remove(conn)
        self.close(conn)

    def close(self, conn: Connection) -> None:
        """Close a connection that is not among the idle ones."""
        del self.all[conn.fd]
        conn.sock.close()

    def close_all(self) -> None:
        """Close everything."""
        for conn in list(self.all.values()):
            conn.sock.close()
        self.all.clear()
        self._idle.clear()


def prepare(sock: socket.socket) -> None:
    """No delay before small writes; the kernel's receive time with every read."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.maxsize > 2**32:  # a struct timespec of two 8-byte words is what the parser reads
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        except OSError:
            return  # the process's own clock stands beside every read


def find_address(host: str, port: int) -> Address:
    """Return the first address of ``host`` that takes a connection.

    Raise OSError, the last refusal, where none does.
    """
    refusal: OSError | None = None
    infos: Sequence[Any] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, _, _, _, address in infos:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            prepare(sock)  # the first to ask for receive times turns them on in the kernel
            sock.settimeout(CONNECT_NS / 1e9)
            try:
                sock.connect(address)
            except OSError as error:
                refusal = error
            else:
                return family, address
    raise refusal or OSError(f"{host} has no address")


def descriptor_limit() -> int:
    """Raise this process's limit of open files as far as it may go; return what sockets get."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(1, wanted - SPARE_DESCRIPTORS)
