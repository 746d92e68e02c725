from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from pytest_llmperf.launch import family

SLEEP = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(600)"]
HERE = f"here-{os.getpid()}"
"""A mark that no other test run on this host uses."""


@pytest.fixture
def sleeper(tmp_path):
    """Return a started child that carries the mark."""
    child = subprocess.Popen(
        SLEEP, env={**os.environ, "LLMPERF_LAUNCH": HERE}, stdout=subprocess.PIPE
    )
    child.stdout.readline()
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def test_a_member_is_read_from_proc(sleeper):
    """Pid, parent and state of a process, and the name it bears."""
    process = family.member(sleeper.pid)
    assert (process.pid, process.parent, process.alive) == (sleeper.pid, os.getpid(), True)
    assert str(process) == f"{sleeper.pid} ({process.name})"
    assert process.name.startswith("python")


def test_nobody_is_none():
    """A pid that no process has reads as None."""
    assert family.member(2**22 + 1) is None


def test_a_name_with_parentheses_is_read(monkeypatch, tmp_path):
    """A process may call itself anything."""
    (tmp_path / "7").mkdir()
    fields = " ".join(["S", "1", *("0" for _ in range(17)), "4711", "0"])
    (tmp_path / "7" / "stat").write_text(f"7 (a) (b) {fields}")
    monkeypatch.setattr(family, "PROC", tmp_path)
    assert family.member(7) == family.Member(7, 1, "S", 4711, "a) (b")


def test_children_are_descendants_and_bear_the_mark(sleeper):
    """A process is found under its parent, and by its mark wherever it is."""
    assert sleeper.pid in {process.pid for process in family.descendants(os.getpid())}
    assert [process.pid for process in family.marked(HERE)] == [sleeper.pid]
    assert family.marked("her") == ()


def test_a_marked_process_is_ended(sleeper):
    """What is left of a launch is killed, and nobody is left."""
    assert family.end_marked(HERE) == ()
    assert sleeper.wait(10) == -signal.SIGKILL


def test_a_zombie_counts_as_gone(sleeper):
    """What only waits to be reaped holds nothing."""
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not family.member(sleeper.pid).alive
    assert family.end(lambda: family.marked(HERE), patience=0, limit=5) == ((), ())


def test_a_later_process_of_the_same_pid_is_spared(sleeper):
    """A pid alone identifies nobody: the time of birth must match."""
    process = family.member(sleeper.pid)
    earlier = family.Member(process.pid, process.parent, "S", process.born - 1, "old")
    family.send(earlier, signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.3)


def test_who_does_not_go_is_told(sleeper, monkeypatch):
    """After the limit those that are left are named, with those that were shot at."""
    monkeypatch.setattr(family, "send", lambda *_: None)
    killed, left = family.end(lambda: family.marked(HERE), patience=0, limit=0.2)
    assert [process.pid for process in killed] == [sleeper.pid]
    assert [process.pid for process in left] == [sleeper.pid]


def test_who_was_found_once_is_looked_after_to_the_end(sleeper, monkeypatch):
    """A process that is being killed loses its mark before it has let go of its memory."""
    monkeypatch.setattr(family, "send", lambda *_: None)
    found = iter([family.marked(HERE)])
    _, left = family.end(lambda: next(found, ()), patience=0, limit=0.2)
    assert [process.pid for process in left] == [sleeper.pid]


def test_who_goes_in_time_is_not_killed(sleeper):
    """Patience lets a process end by itself."""
    sleeper.terminate()
    killed, left = family.end(lambda: family.marked(HERE), patience=10, limit=5)
    assert (killed, left) == ((), ())


def test_a_process_that_changes_is_one(sleeper, monkeypatch):
    """Its state, parent and name may change from one look to the next."""
    monkeypatch.setattr(family, "send", lambda *_: None)
    found = family.member(sleeper.pid)
    states = itertools.cycle("RS")
    _, left = family.end(lambda: [replace(found, state=next(states))], patience=0, limit=0.1)
    assert [process.pid for process in left] == [sleeper.pid]
