"""A kept server outlives its session, and never anybody's wish that it ends."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmperf import http
from pytest_llmperf.errors import LeaseError, ServerDiedError, ServerStartError
from pytest_llmperf.launch import family, launch_engine
from pytest_llmperf.launch.kept import INHERITED, NAMED
from pytest_llmperf.launch.settings import Keep
from pytest_llmperf.launch.shelf import KeptServer, Shelf, end_kept, kept_servers, make_room

KEEPING = Path(__file__).parent / "launching.py"


def test_the_next_session_gets_the_same_server(engine, fake, keeping, tmp_path):
    """Same process and port; the second start-up is none, so it has no time."""
    with launch_engine(engine, fake(), tmp_path / "one", keeping) as first:
        http.complete(first.target)
        assert first.facts.startup_s > 0
    assert family.member(first.pid).alive
    with launch_engine(engine, fake(), tmp_path / "two", keeping) as second:
        http.complete(second.target)
        second.check_alive()
    assert (second.pid, second.target) == (first.pid, first.target)
    assert second.facts == replace(first.facts, startup_s=None)
    assert "fake server" in (tmp_path / "two" / "server.log").read_text()


@pytest.mark.parametrize(
    "change",
    [
        "argument",
        "variable",
        "VLLM_ATTENTION_BACKEND",
        "PATH",
        "LD_LIBRARY_PATH",
        "OMP_NUM_THREADS",
        "PYTHONPATH",
        "model",
    ],
)
def test_another_specification_gets_another_server(
    engine, fake, keeping, tmp_path, monkeypatch, gone, change
):
    """The kept one is ended first; it must not be taken for what was asked."""
    said: list[str] = []
    with launch_engine(engine, fake(), tmp_path / "one", keeping) as first:
        pass
    spec, settings = fake(), replace(keeping, on_progress=said.append)
    if change == "argument":
        spec = fake("--flag", "x")
    elif change == "variable":
        spec = fake(SOME="thing")
    elif change.isupper():
        monkeypatch.setenv(change, f"{os.environ.get(change, '')}:/other")
    else:
        settings = replace(settings, models={"some/model": str(tmp_path)})
    with launch_engine(engine, spec, tmp_path / "two", settings) as second:
        assert second.pid != first.pid
        assert gone(first.pid)
    assert "kept server fake was started otherwise: it is ended and started anew" in said


def test_what_is_compared_is_documented():
    """Every variable's name or beginning is in docs/options.md."""
    told = (Path(__file__).parents[2] / "docs" / "options.md").read_text()
    assert [name for name in (*INHERITED, *NAMED) if f"`{name}`" not in told] == []


def test_its_state_is_for_its_user_alone(engine, fake, keeping, tmp_path, shelves):
    """The key is in the file, and in no representation."""
    with launch_engine(engine, fake(), tmp_path / "one", keeping) as running:
        pass
    state = shelves / "fake" / "server.json"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert running.target.api_key in state.read_text()
    assert running.target.api_key not in repr(kept_servers(shelves))


def test_nobody_else_uses_it_meanwhile(engine, fake, keeping, tmp_path, monkeypatch):
    """Two loads on one server would each measure the other."""
    monkeypatch.setattr("pytest_llmperf.launch.shelf.MOMENT_S", 0.2)
    with (
        launch_engine(engine, fake(), tmp_path / "one", keeping),
        pytest.raises(
            LeaseError, match=r"server 'fake' is kept, and another session \(pid \d+\) uses it"
        ),
        launch_engine(engine, fake(), tmp_path / "two", keeping),
    ):
        pass


def test_it_ends_by_itself_once_nobody_used_it_for_long(
    engine, fake, keeping, tmp_path, shelves, gone
):
    """Supervisor, server, its escaped child and the state file are gone; not while it is used."""
    brief = replace(keeping, keep=Keep(shelves, idle=1.0))
    spec = fake("--escape", str(tmp_path / "escaped"))
    with launch_engine(engine, spec, tmp_path / "one", brief) as running:
        (kept,) = kept_servers(shelves)
        assert not gone(running.pid, within=2.5)
    assert gone(running.pid)
    assert gone(int((tmp_path / "escaped").read_text()))
    assert gone(kept.supervisor[0])
    assert not (shelves / "fake" / "server.json").exists()


def test_it_is_ended_when_asked(engine, fake, keeping, tmp_path, shelves, gone):
    """With all that it started; unless a session uses it."""
    spec = fake("--escape", str(tmp_path / "escaped"))
    with launch_engine(engine, spec, tmp_path / "one", keeping) as running:
        (kept,) = kept_servers(shelves)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pytest_llmperf.launch.shelf.MOMENT_S", 0.2)
            assert not end_kept(Shelf(shelves / kept.name), 5)
        running.check_alive()
    assert end_kept(Shelf(shelves / kept.name), 5)
    assert gone(running.pid)
    assert gone(int((tmp_path / "escaped").read_text()))
    assert kept_servers(shelves) == ()


def test_a_folder_that_is_removed_ends_it(engine, fake, keeping, tmp_path, shelves, gone):
    """``rm -r .llmperf`` leaves nothing running that nobody could find."""
    with launch_engine(engine, fake(), tmp_path / "one", keeping) as running:
        (kept,) = kept_servers(shelves)
    shutil.rmtree(shelves)
    assert gone(running.pid)
    assert gone(kept.supervisor[0])


def test_a_dead_supervisor_leaves_a_state_that_is_cleared(
    engine, fake, keeping, tmp_path, shelves, gone
):
    """The server went with it; the next session ends what escaped and starts a new one."""
    spec = fake("--escape", str(tmp_path / "escaped"))
    with launch_engine(engine, spec, tmp_path / "one", keeping) as first:
        (kept,) = kept_servers(shelves)
    escaped = int((tmp_path / "escaped").read_text())
    os.kill(kept.supervisor[0], signal.SIGKILL)
    assert gone(first.pid)
    assert kept_servers(shelves) == ()
    with launch_engine(engine, spec, tmp_path / "two", keeping) as second:
        assert second.pid != first.pid
        assert gone(escaped)


def test_a_server_that_dies_takes_its_supervisor_along(
    engine, fake, keeping, tmp_path, shelves, gone
):
    """Nobody is told, so nothing is left; in use the session is told why."""
    with launch_engine(engine, fake(), tmp_path / "one", keeping) as running:
        (kept,) = kept_servers(shelves)
        http.post(running.target, "/die", {"model": "some/model"})
        assert gone(running.pid)
        with pytest.raises(ServerDiedError, match="has ended while it was in use") as caught:
            running.check_alive()
        assert "told to die" in str(caught.value)
    assert gone(kept.supervisor[0])
    assert kept_servers(shelves) == ()


def test_one_that_hangs_is_replaced(engine, fake, keeping, tmp_path, monkeypatch):
    """A kept server must answer a request before it is used."""
    monkeypatch.setattr("pytest_llmperf.launch.kept.ANSWER_WITHIN_S", 0.5)
    hasty = replace(keeping, stop_timeout=0.5)
    with launch_engine(engine, fake(), tmp_path / "one", hasty) as first:
        pass
    os.kill(first.pid, signal.SIGSTOP)
    with launch_engine(engine, fake(), tmp_path / "two", hasty) as second:
        assert second.pid != first.pid


def test_a_start_that_fails_keeps_nothing(engine, fake, keeping, tmp_path, shelves):
    """No state, no process, and the lock is free again."""
    for number in (1, 2):
        with (
            pytest.raises(ServerStartError, match="no such thing"),
            launch_engine(
                engine, fake("--die", "error: no such thing"), tmp_path / str(number), keeping
            ),
        ):
            pass
    assert not (shelves / "fake" / "server.json").exists()


def test_a_killed_session_keeps_its_server_for_the_next(tmp_path, appeared, shelves, gone):
    """SIGKILL of pytest: the supervisor goes on, the lock is free, the server usable."""
    command = [sys.executable, str(KEEPING), str(tmp_path), "--keep", str(shelves)]
    with subprocess.Popen(command) as parent:
        try:
            _, server, supervisor, _ = map(int, appeared(tmp_path / "pids").split())
        finally:
            parent.kill()
    assert not gone(server, within=1.5)
    (kept,) = kept_servers(shelves)
    assert (kept.pid[0], kept.supervisor[0]) == (server, supervisor)
    assert end_kept(Shelf(shelves / kept.name), 5)


def test_room_is_made_by_the_one_used_longest_ago(engine, fake, keeping, tmp_path, shelves, gone):
    """Only servers that hold GPUs, never the one that is to be started, none that is in use."""
    pids = {}
    for name in ("old", "new"):
        with launch_engine(engine, fake(name=name), tmp_path / name, keeping) as running:
            pids[name] = running.pid
    assert make_room(shelves, but="x", grace=5) is None, "these hold no GPU"
    for name in ("old", "new"):
        state = shelves / name / "server.json"
        replace(KeptServer.read(state), gpus=1).write(state)
    assert make_room(shelves, but="old", grace=5) == "new"
    assert gone(pids["new"])
    with launch_engine(engine, fake(name="new"), tmp_path / "again", keeping):
        pass
    assert make_room(shelves, but="x", grace=5) == "old"
