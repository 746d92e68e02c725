"""A server that knows when it really sent each token: truthd.c, compiled once a session."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_llmperf.model.launch import Target
from tests.helpers import require_tool

SOURCE = Path(__file__).with_name("truthd.c")


class Truthd:
    """One running server."""

    def __init__(self, port: int) -> None:
        self.target = Target("127.0.0.1", port, "m")

    def get(self, path: str) -> bytes:
        """Ask for a path."""
        url = f"http://127.0.0.1:{self.target.port}{path}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            body: bytes = answer.read()
        return body

    def stats(self) -> dict[str, Any]:
        """What it really sent: ``ttft`` and ``itl`` in ms (p50, p99, ...), counts."""
        stats: dict[str, Any] = json.loads(self.get("/stats"))
        return stats


Serve = Callable[[float, float], Any]


@pytest.fixture(scope="session")
def truthd(tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """Return ``truthd(ttft_s, itl_s)``, a context manager of a running Truthd."""
    compiler = require_tool("gcc", "truthd.c, the server whose timing is known, needs it")
    program = tmp_path_factory.mktemp("truth") / "truthd"
    subprocess.run([compiler, "-O2", "-o", program, SOURCE], check=True)

    @contextmanager
    def serve(ttft_s: float, itl_s: float) -> Iterator[Truthd]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with subprocess.Popen([program, str(port), str(itl_s), str(ttft_s)]) as process:
            try:
                _await(port)
                yield Truthd(port)
            finally:
                process.kill()

    return serve


def _await(port: int) -> None:
    until = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return
