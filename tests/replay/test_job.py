from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.replay.job import Orders, Turn, read_job, write_job

if TYPE_CHECKING:
    from pathlib import Path


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Orders, due times, each request's bytes, empty ones too, and no turns where there are none."""
    orders = Orders("127.0.0.1", 8000, 7, 60_000_000_000, 4242)
    requests = [b"first", b"", b"the third \x00\xff"]
    write_job(tmp_path / "job", orders, [0, 10, 10], iter(requests))
    job = read_job(tmp_path / "job")
    assert job.orders == orders
    assert job.due_ns == [0, 10, 10]
    assert [bytes(request) for request in job.requests] == requests
    assert job.turns == []


def test_later_turns_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Who waits for whom, and how long: beside requests of any length."""
    turns = [Turn(1, 0, 5_000_000_000), Turn(2, 1, 0)]
    orders = Orders("h", 1, None, 1, 1)
    write_job(tmp_path / "job", orders, [7, 0, 0], iter([b"a", b"bcd", b"ef"]), turns)
    job = read_job(tmp_path / "job")
    assert job.turns == turns
    assert job.due_ns == [7, 0, 0]
    assert [bytes(request) for request in job.requests] == [b"a", b"bcd", b"ef"]


def test_only_the_user_can_read_a_job(tmp_path: Path) -> None:
    """Requests carry the server's key."""
    write_job(tmp_path / "job", Orders("h", 1, None, 1, 1), [0], [b"Authorization: Bearer x"])
    assert (tmp_path / "job").stat().st_mode & 0o077 == 0
