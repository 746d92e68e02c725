"""A kept server's supervisor knows when nobody uses it, and forgets no server but its own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_llmperf.launch import keeping
from pytest_llmperf.launch.keeping import ENDING, Keeping, holder_of, mark_in
from pytest_llmperf.launch.shelf import Shelf


@pytest.fixture
def clock(monkeypatch):
    """The supervisor's clock, which the test sets: ``clock.now`` in seconds."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(keeping, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def shelf(tmp_path):
    """A shelf with the state of the server marked ``own``."""
    shelf = Shelf(tmp_path / "server")
    shelf.folder.mkdir()
    shelf.state.write_text('{"mark": "own"}')
    return shelf


def watch(shelf, idle=10.0):
    """Return the supervisor's side of it."""
    return Keeping(shelf.lock, shelf.state, idle, "own")


def expired_at(keeping, clock, now):
    """Return what the supervisor thinks at that time."""
    clock.now = now
    return keeping.expired()


def test_a_use_between_two_looks_counts(shelf, clock):
    """Looks at 101 and 109 find it free, a session came and went between: idle from 109 on."""
    watched = watch(shelf)
    assert not expired_at(watched, clock, 101)
    assert shelf.take(0)
    shelf.let_go()
    assert not expired_at(watched, clock, 109)
    assert not expired_at(watched, clock, 118)
    assert expired_at(watched, clock, 119)


def test_a_look_is_no_use(shelf, clock):
    """Found free at 101 and ever since: ten seconds later the idle time is over."""
    watched = watch(shelf)
    assert [expired_at(watched, clock, now) for now in (101, 105, 110, 111)] == [
        False,
        False,
        False,
        True,
    ]


def test_a_use_that_lasts_counts_to_its_end(shelf, clock):
    """Held at 101 and 130, let go then: over ten seconds after the look that saw that."""
    watched = watch(shelf)
    assert shelf.take(0)
    assert not expired_at(watched, clock, 101)
    assert not expired_at(watched, clock, 130)
    shelf.let_go()
    assert not expired_at(watched, clock, 131)
    assert not expired_at(watched, clock, 140)
    assert expired_at(watched, clock, 141)


def test_nobody_gets_one_that_has_expired(shelf, clock):
    """The lock says why; with the server its state goes."""
    watched = watch(shelf)
    assert not expired_at(watched, clock, 101)
    assert expired_at(watched, clock, 111)
    assert not shelf.take(0)
    assert holder_of(shelf.lock) == ENDING
    watched.forget()
    assert not shelf.state.exists()


@pytest.mark.parametrize("text", ['{"mark": "successor"}', '{"schema": 9}', "[]", "{", ""])
def test_it_forgets_no_other_server(shelf, text):
    """A slow end: meanwhile a session took the shelf for a server of its own, and let it go."""
    watched = watch(shelf)
    shelf.state.write_text(text)
    watched.forget()
    assert shelf.state.read_text() == text


def test_a_mark_is_read_whatever_else_there_is(shelf):
    """A state of another version has it too; without one it is nobody's."""
    shelf.state.write_text('{"schema": 9, "mark": "m"}')
    assert mark_in(shelf.state) == "m"
    shelf.state.write_text("{")
    assert "\0" in mark_in(shelf.state)
