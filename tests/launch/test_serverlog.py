from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_llmperf.engines import vllm
from pytest_llmperf.launch.progress import StartProgress
from pytest_llmperf.launch.serverlog import ServerLog, ended

KEY = "s3cret"


@pytest.fixture
def log(tmp_path):
    log = ServerLog(tmp_path / "server.log", vllm.ENGINE, secret=KEY)
    log.clear()
    return log


def test_the_tail_is_the_last_lines_indented(log):
    """Ten lines at most, a progress bar's last states among them, no line endless, no key."""
    log.path.write_text("\n".join(f"line {n}" for n in range(20)) + f"\r{'x' * 999}\nkey s3cret\n")
    lines = log.tail().splitlines()
    assert len(lines) == 10
    assert lines[0] == "    line 12"
    assert lines[-2] == "    " + "x" * 300
    assert lines[-1] == "    key ***"


def test_an_empty_log_is_said_to_be_empty(log):
    """No words are words too."""
    assert log.failure() == "    its log is empty"
    assert log.tail() == "    nothing: it is empty"


def test_bytes_that_are_no_text_do_not_hide_the_reason(log):
    """A log may hold anything."""
    log.path.write_bytes(b"\xff\xfe\nValueError: bad\n")
    assert log.failure() == "    ValueError: bad"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "ended with exit code 1"),
        (0, "ended with exit code 0"),
        (-11, "was ended by SIGSEGV"),
        (-9, "was ended by SIGKILL (by hand, or for want of memory: see dmesg)"),
        (-40, "was ended by signal 40"),
        (None, "lost its supervisor (pid 7), which was killed, and ended with it"),
    ],
)
def test_how_a_server_ended(code, words):
    """Exit code, signal by name, or the supervisor's end."""
    assert ended(SimpleNamespace(exit_code=code, pid=7)) == words


def test_progress_tells_each_phase_once(log, monkeypatch):
    """A new phase is told when it is seen, the same one again after a while."""
    now = 0.0
    monkeypatch.setattr(
        "pytest_llmperf.launch.progress.time", SimpleNamespace(monotonic=lambda: now)
    )
    said: list[str] = []
    progress = StartProgress(log, said.append)
    text = {3: "Starting to load model m\n", 9: "Dynamo bytecode transform time: 3 s\n"}
    for second in range(32):
        now = float(second)
        with log.path.open("a") as file:
            file.write(text.get(second, ""))
        progress.tell()
    assert said == ["starting", "loading weights", "compiling", "compiling"]
