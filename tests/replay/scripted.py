"""A server that answers as a test says, byte by byte."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pytest_llmperf.model.launch import Target
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
PATIENCE_S = 20.0

Script = Callable[["Client"], None]


class Client:
    """One accepted connection. ``number`` counts connections, ``requests`` those it has read."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock = sock
        self.number = number
        self.requests: list[bytes] = []

    def request(self) -> bytes | None:
        """Read one request, head and body; None where the client has closed."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = self.sock.recv(65536)
            if not more:
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        while len(body) < length:
            body += self.sock.recv(65536)
        self.requests.append(head + b"\r\n\r\n" + body)
        return self.requests[-1]

    def send(self, *parts: bytes, pause: float = 0.0) -> None:
        """Write each part at once and on its own."""
        for part in parts:
            self.sock.sendall(part)
            if pause:
                time.sleep(pause)

    def reset(self) -> None:
        """Close with an RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()


class Scripted:
    """Runs ``script`` on every connection, each in a thread."""

    def __init__(self, script: Script) -> None:
        self.clients: list[Client] = []
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    @property
    def target(self) -> Target:
        """Where to send requests."""
        return Target("127.0.0.1", self.port, "m")

    @property
    def requests(self) -> list[bytes]:
        """All requests read, by connection."""
        return [request for client in self.clients for request in client.requests]

    def close(self) -> None:
        """Stop, and wait for every thread."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(PATIENCE_S)
            client = Client(sock, len(self.clients))
            self.clients.append(client)
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: Client) -> None:
        try:
            self._script(client)
        except OSError:
            pass  # the client went away, which some tests make it do
        finally:
            client.sock.close()


@contextmanager
def scripted(script: Script) -> Iterator[Scripted]:
    """Serve ``script`` on a port of 127.0.0.1."""
    server = Scripted(script)
    try:
        yield server
    finally:
        server.close()


def always(*parts: bytes, pause: float = 0.0) -> Script:
    """Answer every request on a connection with these parts."""

    def script(client: Client) -> None:
        while client.request() is not None:
            client.send(*parts, pause=pause)

    return script


def event(count: int | None, text: str = "x") -> bytes:
    """Return a completions event; ``count``: its completion tokens so far."""
    usage = "null" if count is None else f'{{"prompt_tokens": 8, "completion_tokens": {count}}}'
    choice = f'{{"index": 0, "text": "{text}", "finish_reason": null}}'
    return f'data: {{"choices": [{choice}], "usage": {usage}}}\n\n'.encode()


def chunk(data: bytes) -> bytes:
    """Return ``data`` as one HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer(tokens: int) -> bytes:
    """Return a whole chunked answer of that many tokens."""
    events = b"".join(chunk(event(count + 1)) for count in range(tokens))
    return CHUNKED + events + chunk(DONE) + b"0\r\n\r\n"


def traffic(
    *due_s: float, tokens: int = 3, max_concurrency: int | None = None, ignore_eos: bool = True
) -> Traffic:
    """Return requests due at those times, each asking for ``tokens`` tokens."""
    spec = TrafficSpec(
        "scripted",
        "literal",
        num_prompts=len(due_s),
        max_concurrency=max_concurrency,
        ignore_eos=ignore_eos,
    )
    prompt = Prompt("hello", 1, tokens)
    requests = (Request(i, int(due * 1e9), prompt) for i, due in enumerate(due_s))
    return Traffic(spec, tuple(requests))
