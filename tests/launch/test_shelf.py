"""What a shelf tells of its server, and how whoever has its lock ends what is there."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from pytest_llmperf.errors import LeaseError
from pytest_llmperf.launch import family, launch_engine
from pytest_llmperf.launch import shelf as module
from pytest_llmperf.launch.keeping import ENDING, say_holder
from pytest_llmperf.launch.shelf import (
    KeptServer,
    Shelf,
    end_kept,
    kept_servers,
    kept_shelves,
    make_room,
    supervisors_of,
    take_shelf,
)


def unknown_key(state):
    """Make it a state as a later version might write it."""
    state.write_text(json.dumps({**json.loads(state.read_text()), "colour": "red"}))


def damaged(state):
    """Make it a state that not even the mark can be read of."""
    state.write_text(state.read_text()[:40])


SPOILT = pytest.mark.parametrize("spoil", [unknown_key, damaged])


@pytest.fixture
def kept(engine, fake, keeping, tmp_path, shelves):
    """A kept server that nobody uses, with a child that left its process group."""
    spec = fake("--escape", str(tmp_path / "escaped"))
    with launch_engine(engine, spec, tmp_path / "one", keeping):
        (kept,) = kept_servers(shelves)
    return kept


@SPOILT
def test_an_unreadable_state_hides_no_server(kept, tmp_path, shelves, gone, spoil):
    """Ended all the same, with its supervisor and what escaped: it is known by its log."""
    (shelf,) = kept_shelves(shelves)
    spoil(shelf.state)
    assert KeptServer.read(shelf.state) is None
    assert shelf.unreadable
    assert kept_servers(shelves) == ()
    assert [process.pid for process in supervisors_of(shelf.log)] == [kept.supervisor[0]]
    assert end_kept(shelf, 5)
    assert gone(kept.pid[0], within=0.1)
    assert gone(kept.supervisor[0], within=0.1)
    assert gone(int((tmp_path / "escaped").read_text()), within=0.1)
    assert kept_shelves(shelves) == ()


@SPOILT
def test_the_next_session_ends_an_unreadable_one(
    engine, fake, kept, keeping, tmp_path, shelves, spoil
):
    """It says so, and starts its own."""
    spoil(shelves / "fake" / "server.json")
    said: list[str] = []
    telling = replace(keeping, on_progress=said.append)
    with launch_engine(engine, fake(), tmp_path / "two", telling) as second:
        assert family.member(kept.pid[0]) is None
        assert family.member(kept.supervisor[0]) is None
    assert said[0] == "kept server fake has an unreadable state: it is ended"
    assert [server.pid[0] for server in kept_servers(shelves)] == [second.pid]


def test_an_unreadable_one_makes_room(kept, shelves, gone):
    """It may hold GPUs; one that is known to hold none stays."""
    assert make_room(shelves, but="x", grace=5) is None
    unknown_key(shelves / "fake" / "server.json")
    assert make_room(shelves, but="fake", grace=5) is None
    assert make_room(shelves, but="x", grace=5) == "fake"
    assert gone(kept.supervisor[0], within=0.1)


def test_a_log_has_one_supervisor(kept, shelves, tmp_path):
    """Another log has none, nor has one that does not exist; the server itself is none."""
    (tmp_path / "other.log").touch()
    assert supervisors_of(tmp_path / "other.log") == ()
    assert supervisors_of(tmp_path / "missing.log") == ()
    assert kept.pid[0] not in {
        process.pid for process in supervisors_of(Shelf(shelves / "fake").log)
    }


def test_the_idle_time_is_the_servers_own(kept):
    """As the session said that started it."""
    assert kept.idle == 60.0


def test_a_lock_is_had_once(tmp_path):
    """By whichever descriptor; it is free again when let go."""
    one, other = Shelf(tmp_path / "s"), Shelf(tmp_path / "s")
    assert one.take(0)
    started = time.monotonic()
    assert not other.take(0.1)
    assert time.monotonic() - started >= 0.1
    one.let_go()
    assert other.take(0)
    other.let_go()


@pytest.mark.parametrize(
    ("holder", "told"),
    [
        ("another session (pid 7)", "another session (pid 7) uses it"),
        ("", "another session uses it"),
        (ENDING, "its supervisor is ending it after its idle time"),
    ],
)
def test_waiting_says_for_whom(tmp_path, monkeypatch, holder, told):
    """While it waits and when it gives up: a session is waited for, an end is soon over."""
    monkeypatch.setattr(module, "MOMENT_S", 0.3)
    monkeypatch.setattr(module, "TELL_AFTER_S", 0.1)
    one = Shelf(tmp_path / "s")
    assert one.take(0)
    say_holder(one._lock, holder)
    said: list[str] = []
    with pytest.raises(LeaseError) as caught:
        take_shelf(tmp_path, "s", 0, said.append)
    assert f"server 's' is kept, and {told} (" in str(caught.value)
    assert ("Run again in a moment" in str(caught.value)) is (holder == ENDING)
    assert said == [f"waiting for kept server s: {holder or 'another session'} has it"]
    one.let_go()


def test_a_launch_tells_that_it_waits(engine, fake, keeping, tmp_path, shelves, monkeypatch):
    """In the session's progress; the wait ends when the other session lets go."""
    monkeypatch.setattr(module, "TELL_AFTER_S", 0.0)
    one = Shelf(shelves / "fake")
    assert one.take(0)
    said: list[str] = []

    def tell(text):
        said.append(text)
        one.let_go()

    patient = replace(keeping, on_progress=tell, lease_timeout=60)
    with launch_engine(engine, fake(), tmp_path / "one", patient):
        assert said[0].startswith("waiting for kept server fake: another session (pid ")
