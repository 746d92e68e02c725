from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_llmperf.errors import ServerDiedError, ServerStopError
from pytest_llmperf.launch import family, launch_engine, launcher, supervision
from pytest_llmperf.launch.lease import Candidate
from pytest_llmperf.launch.supervisor import wait_for_memory

LAUNCHING = Path(__file__).parent / "launching.py"
GIB = 1 << 30


@pytest.mark.parametrize("how", [[], ["--fork"]], ids=["alone", "with a copy holding the pipe"])
def test_a_killed_pytest_leaves_no_server(tmp_path, appeared, gone, how):
    """A SIGKILL of the process that launched ends server, escaped child and supervisor."""
    parent = subprocess.Popen([sys.executable, str(LAUNCHING), str(tmp_path), *how])
    try:
        own, server, supervisor, copy = map(int, appeared(tmp_path / "pids").split())
        escaped = int(appeared(tmp_path / "escaped"))
        assert own == parent.pid
        assert all(family.member(pid).alive for pid in (server, supervisor, escaped))
    finally:
        parent.kill()
        parent.wait()
    try:
        assert gone(server)
        assert gone(escaped)
        assert gone(supervisor)
    finally:
        if copy:
            os.kill(copy, signal.SIGKILL)
            assert gone(copy)


def test_a_supervisor_is_outside_pytests_group_and_session(engine, fake, settings, tmp_path):
    """Signals to pytest's group reach neither supervisor nor server; these two are apart too."""
    with launch_engine(engine, fake(), tmp_path, settings) as running:
        supervisor = family.member(running.pid).parent
        sessions = {os.getsid(0), os.getsid(supervisor), os.getsid(running.pid)}
        groups = {os.getpgid(0), os.getpgid(supervisor), os.getpgid(running.pid)}
    assert (len(sessions), len(groups)) == (3, 3)


def test_a_killed_supervisor_takes_the_server_along(engine, fake, settings, tmp_path, gone):
    """A SIGKILL of the supervisor ends the server at once, and what escaped at the end."""
    path = tmp_path / "escaped"
    with launch_engine(engine, fake("--escape", str(path)), tmp_path, settings) as running:
        supervisor = family.member(running.pid).parent
        os.kill(supervisor, signal.SIGKILL)
        assert gone(running.pid)
        with pytest.raises(ServerDiedError, match=f"lost its supervisor .pid {supervisor}"):
            running.check_alive()
    assert gone(int(path.read_text()))


def test_a_supervisor_that_is_asked_to_end_ends_all(engine, fake, settings, tmp_path, gone):
    """SIGTERM to the supervisor, as a container's end sends it, is an orderly end."""
    path = tmp_path / "escaped"
    with launch_engine(engine, fake("--escape", str(path)), tmp_path, settings) as running:
        supervisor = family.member(running.pid).parent
        os.kill(supervisor, signal.SIGTERM)
        assert gone(supervisor)
        assert gone(running.pid)
        assert gone(int(path.read_text()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_supervisor_outlives_the_terminals_signals(engine, fake, settings, tmp_path, number):
    """Ctrl-C and a closed terminal are pytest's to handle; the server takes them as usual."""
    with launch_engine(engine, fake(), tmp_path, settings) as running:
        supervisor = family.member(running.pid).parent
        os.kill(supervisor, number)
        running.metrics_text()
        running.check_alive()
        ignored = int(_status(running.pid, "SigIgn"), 16)
    assert ignored & (1 << (number - 1)) == 0


def test_the_server_inherits_no_pipe(engine, fake, settings, tmp_path):
    """Were a pipe of the supervisor open in the server, its end would go unnoticed."""
    with launch_engine(engine, fake(), tmp_path, settings) as running:
        folder = family.PROC / str(running.pid) / "fd"
        open_files = {str(path.readlink()) for path in folder.iterdir()}
    assert not [name for name in open_files if name.startswith("pipe:")]
    assert str(tmp_path / "server.log") in open_files


def test_what_stays_is_an_error_that_names_it(engine, fake, settings, tmp_path, monkeypatch):
    """A process or memory that does not go away is a ServerStopError."""

    class Stubborn(supervision.Supervision):
        def stop(self, grace):
            super().stop(grace)
            return supervision.Stopped(left=("7 (VLLM::Worker)",), occupied=("GPU 0 is full",))

    monkeypatch.setattr(launcher, "Supervision", Stubborn)
    with (
        pytest.raises(ServerStopError) as caught,
        launch_engine(engine, fake(), tmp_path, settings),
    ):
        pass
    assert "process 7 (VLLM::Worker) does not end; GPU 0 is full" in str(caught.value)
    with (
        pytest.raises(KeyError) as body,
        launch_engine(engine, fake(), tmp_path, settings),
    ):
        raise KeyError("mine")
    assert "7 (VLLM::Worker)" in body.value.__notes__[0]


def test_memory_is_waited_for():
    """A GPU is free once it has no more in use than before, give or take the tolerance."""
    gpu = Candidate(0, "GPU-a", "H200", used=GIB)
    readings = iter([90 * GIB, 30 * GIB, GIB + (100 << 20)])
    assert wait_for_memory((gpu,), lambda: {"GPU-a": (next(readings), ())}, limit=60) == []
    assert list(readings) == []


def test_memory_that_stays_names_gpu_and_processes():
    """After the limit the surplus is told, with who has it."""
    gpus = (Candidate(0, "GPU-a", "H200", used=GIB), Candidate(1, "GPU-b", "H200", used=0))
    use = {"GPU-a": (4 * GIB, ("7 (python)", "9")), "GPU-b": (0, ())}
    assert wait_for_memory(gpus, lambda: use, limit=0.1) == [
        "GPU 0 (H200) has 3.00 GiB more in use than before the launch, by pid 7 (python), 9"
    ]


def test_a_gpu_that_cannot_be_read_is_not_waited_for():
    """Where NVML does not know the GPU there is nothing to wait for."""
    gpu = Candidate(0, "GPU-a", "H200", used=0)
    assert wait_for_memory((gpu,), dict, limit=60) == []


def test_a_supervisor_starts_with_the_standard_library():
    """Nothing heavy stands between a launch and its server's start."""
    script = "import sys, pytest_llmperf.launch.supervisor; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"httpx", "pynvml", "psutil", "numpy", "pytest", "prometheus_client", "asyncio"}
    assert heavy.isdisjoint(loaded)


def _status(pid: int, field: str) -> str:
    lines = (family.PROC / str(pid) / "status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{field}:"))


@pytest.mark.parametrize(("grace", "longest"), [(5, 125), (30, 150), (60, 180), (200, 460)])
def test_a_stop_is_waited_for_as_long_as_it_may_take(grace, longest):
    """The grace, then a minute for the family and as much for the memory, or the grace again."""
    assert supervision.longest_stop(grace) == longest
