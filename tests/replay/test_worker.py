from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.replay.scripted import Client, always, answer, scripted

HEAVY = {"numpy", "orjson", "httpx", "pyarrow", "scipy", "asyncio", "pytest"}

REPLAY = """
import sys
from pathlib import Path
from pytest_llmperf.model.launch import Target
from pytest_llmperf.replay import replay
from tests.replay.scripted import traffic
made = traffic(*[0.0] * int(sys.argv[2]))
done = replay(made, Target("127.0.0.1", int(sys.argv[1]), "m"), work=Path(sys.argv[3]), salt=None)
print([record.error for record in done.records].count(None), done.health.start_s)
"""
ROOT = Path(__file__).parents[2]


def test_the_load_process_imports_nothing_heavy() -> None:
    """It starts soon because the standard library is all it needs."""
    code = "import sys, pytest_llmperf.replay.worker; print(*sys.modules)"
    listed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert HEAVY & set(listed.stdout.split()) == set()


def test_few_descriptors_delay_requests_but_lose_none(tmp_path: Path) -> None:
    """120 requests at once where 36 sockets may be open: the rest wait their turn."""
    with scripted(always(answer(3))) as server:
        command = [sys.executable, "-c", REPLAY, str(server.port), "120", str(tmp_path)]
        done = subprocess.run(
            ["bash", "-c", 'ulimit -n 100 && exec "$@"', "-", *command],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        assert len([client for client in server.clients if client.requests]) <= 36
    count, start_s = done.stdout.split()
    assert count == "120"
    assert 0 < float(start_s) < 10


def test_the_load_process_dies_with_its_parent(tmp_path: Path) -> None:
    """The one who wanted the replay is killed: nobody is left sending requests."""

    def silent(client: Client) -> None:
        client.request()
        client.request()

    with scripted(silent) as server:
        command = [sys.executable, "-c", REPLAY, str(server.port), "1", str(tmp_path)]
        with subprocess.Popen(command, cwd=ROOT) as parent:
            until = time.monotonic() + 15
            while not server.requests and time.monotonic() < until:
                time.sleep(0.02)
            (worker,) = psutil.Process(parent.pid).children()
            os.kill(parent.pid, signal.SIGKILL)
        psutil.wait_procs([worker], timeout=10)
        assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
