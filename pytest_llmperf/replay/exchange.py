"""What is under way on each connection: a handshake, a request, an answer and its end.

Every connection has a ``handle`` for its next event; it changes with what is expected. The
hot one is ``_on_chunked``: a read, and a look at the last 7 bytes.
"""

from __future__ import annotations

import select
import time
from collections import deque
from typing import TYPE_CHECKING

from pytest_llmperf.replay.connections import OPENING, Connection, Pool
from pytest_llmperf.replay.framing import CHUNKED_END, Framing, HeadError, read_head

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_llmperf.replay.spool import Spool

TAIL = len(CHUNKED_END)
PASSING_NS = 1_000_000_000
"""A request and the server's closing of an idle connection that pass each other do so soon."""

OK = 200
CUT = "the server closed the connection in the middle of the answer"


class Exchange:
    """Requests going out and answers coming in. ``ended(index)`` is called as each request ends.

    ``sent_ns`` is 0 for a request that has not left; ``errors`` says what became of the
    connection of one that did not end well; ``refused`` holds those whose answer has another
    status than 200.
    """

    def __init__(
        self,
        requests: Sequence[memoryview],
        pool: Pool,
        spool: Spool,
        ended: Callable[[int], None],
    ) -> None:
        self.sent_ns = [0] * len(requests)
        self.errors: dict[int, str] = {}
        self.refused: set[int] = set()
        self.reconnects = 0
        self.refusals = 0
        self._requests = requests
        self._pool = pool
        self._spool = spool
        self._ended = ended
        self._unserved: deque[int] = deque()
        self._retried: set[int] = set()

    def begin(self, index: int, now: int) -> None:
        """Write a request, at once where a connection stands, else as soon as one does."""
        conn = self._pool.take(now)
        if conn is not None:
            self._write(conn, index)
        else:
            self._unserved.append(index)
            self._open_for_unserved()

    def open_ahead(self, count: int) -> None:
        """Start handshakes until that many are under way."""
        for _ in range(min(count, OPENING) - self._pool.connecting):
            self._pool.open(self._on_connected)

    def broken(self, conn: Connection, error: OSError | HeadError) -> None:
        """Take note that a connection's handler met an error."""
        if conn.request < 0:
            self._pool.drop(conn)
        else:
            self._lose(conn, why(error))

    def give_up(self, conn: Connection, reason: str) -> None:
        """End a connection, and its request with that error."""
        self._pool.close(conn)
        self._end(conn.request, reason)

    def _open_for_unserved(self) -> None:
        if self._pool.connecting < min(len(self._unserved), OPENING):
            self._pool.open(self._on_connected)

    def _on_connected(self, conn: Connection, mask: int) -> None:
        if mask == select.EPOLLIN:
            return  # meant for a socket that had this number before
        reason = self._pool.opened(conn)
        if reason is None:
            self._release(conn)
        elif self._unserved:
            self._end(self._unserved.popleft(), f"connection failed: {reason}")
        else:
            self.refusals += 1
        self._open_for_unserved()

    def _release(self, conn: Connection) -> None:
        if self._unserved:
            self._write(conn, self._unserved.popleft())
        else:
            conn.handle = self._on_idle
            self._pool.give(conn, time.monotonic_ns())

    def _write(self, conn: Connection, index: int) -> None:
        request = self._requests[index]
        conn.request = index
        conn.handle = self._on_head
        conn.heard_ns = now = time.monotonic_ns()
        if not self.sent_ns[index]:
            self.sent_ns[index] = now
        try:
            count = conn.sock.send(request)
        except BlockingIOError:
            count = 0
        except OSError as error:
            self._again(conn, why(error))  # the server has not seen a byte of it
            return
        if count < len(request):
            conn.unsent = request[count:]
            conn.handle = self._on_writable
            self._pool.await_room(conn)

    def _on_writable(self, conn: Connection, mask: int) -> None:
        if mask & select.EPOLLOUT and conn.unsent is not None:
            rest = conn.unsent[conn.sock.send(conn.unsent) :]
            conn.unsent = rest if len(rest) else None
            if conn.unsent is not None:
                return
        # All is written, or the server answers without having read all.
        self._pool.await_data(conn)
        conn.handle = self._on_head

    def _on_idle(self, conn: Connection, _mask: int) -> None:
        conn.sock.recv(1)  # the end, or something that nobody asked for
        self._pool.drop(conn)

    def _on_head(self, conn: Connection, _mask: int) -> None:
        count = self._spool.receive(conn)
        if not count:
            self._lose(conn, "the server closed the connection without an answer")
            return
        conn.head += self._spool.buffer[self._spool.at - count : self._spool.at]
        head = read_head(conn.head)
        if head is None:
            return
        if head.status != OK:
            self.refused.add(conn.request)
        conn.keeps_open = head.keeps_open and conn.unsent is None
        conn.left = head.length - (len(conn.head) - head.size)
        conn.tail = conn.head[-TAIL:]
        if head.framing is Framing.CLOSE:
            conn.handle = self._on_until_close
        elif head.framing is Framing.LENGTH:
            conn.handle = self._on_length
            if conn.left <= 0:
                self._finish(conn)
        else:
            conn.handle = self._on_chunked
            if conn.tail == CHUNKED_END:
                self._finish(conn)

    def _on_chunked(self, conn: Connection, _mask: int) -> None:
        spool = self._spool
        count = spool.receive(conn)
        at = spool.at
        tail: bytes | bytearray
        if count >= TAIL:
            tail = spool.buffer[at - TAIL : at]
        elif count:
            tail = (conn.tail + spool.buffer[at - count : at])[-TAIL:]
        else:
            self._lose(conn, CUT)
            return
        if tail == CHUNKED_END:
            self._finish(conn)
        else:
            conn.tail = tail

    def _on_length(self, conn: Connection, _mask: int) -> None:
        count = self._spool.receive(conn)
        conn.left -= count
        if not count:
            self._lose(conn, CUT)
        elif conn.left <= 0:
            self._finish(conn)

    def _on_until_close(self, conn: Connection, _mask: int) -> None:
        if not self._spool.receive(conn):
            self._finish(conn)

    def _finish(self, conn: Connection) -> None:
        index = conn.request
        conn.served += 1
        conn.head = b""
        if conn.keeps_open:
            self._release(conn)
        else:
            self._pool.close(conn)
        self._end(index)

    def _lose(self, conn: Connection, reason: str) -> None:
        """End a connection's request, or write it once more on a fresh connection.

        Once more only where a connection that had answered before was closed without a byte,
        soon after: the server let it go as the request was on its way.
        """
        unanswered = not conn.head and conn.handle in (self._on_head, self._on_writable)
        soon = time.monotonic_ns() - self.sent_ns[conn.request] < PASSING_NS
        if unanswered and soon and conn.served:
            self._again(conn, reason)
        else:
            self.give_up(conn, reason)

    def _again(self, conn: Connection, reason: str) -> None:
        if conn.request in self._retried:
            self.give_up(conn, reason)
            return
        self._pool.close(conn)
        self._retried.add(conn.request)
        self.reconnects += 1
        self._unserved.appendleft(conn.request)
        self._open_for_unserved()

    def _end(self, index: int, error: str | None = None) -> None:
        if error is not None:
            self.errors[index] = error
        if self._unserved:
            self._open_for_unserved()
        self._ended(index)


def why(error: Exception) -> str:
    """Say an error in the words of the system."""
    text = error.strerror if isinstance(error, OSError) else None
    return text or str(error)
