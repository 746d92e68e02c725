from __future__ import annotations

from pytest_llmperf.replay.job import Turn
from pytest_llmperf.replay.schedule import NEVER, Schedule


def drain(schedule: Schedule) -> list[tuple[int, int]]:
    """Return (due, request) of everything whose due time is known, in order."""
    taken = []
    while (due := schedule.next_due_ns()) != NEVER:
        taken.append((due, schedule.take()))
    return taken


def test_without_turns_requests_leave_in_order() -> None:
    """At the start plus their due times; equal ones by index."""
    schedule = Schedule([0, 10, 10, 40])
    schedule.begin_at(1000)
    assert schedule.due_ns == [1000, 1010, 1010, 1040]
    assert drain(schedule) == [(1000, 0), (1010, 1), (1010, 2), (1040, 3)]
    assert schedule.next_due_ns() == NEVER


def test_a_later_turn_is_due_its_think_time_after_the_answer() -> None:
    """Two conversations: 0 → 1 → 2 with 5 and 7 between, and 3 → 4. Nothing waits by index."""
    schedule = Schedule([0, 0, 0, 10, 0], [Turn(1, 0, 5), Turn(2, 1, 7), Turn(4, 3, 0)])
    schedule.begin_at(1000)
    assert drain(schedule) == [(1000, 0), (1010, 3)]
    schedule.answered(3, 1030)
    schedule.answered(0, 1020)
    assert drain(schedule) == [(1025, 1), (1030, 4)]
    schedule.answered(1, 1100)
    schedule.answered(4, 1100)
    assert drain(schedule) == [(1107, 2)]
    assert schedule.due_ns == [1000, 1025, 1107, 1010, 1030]


def test_later_turns_and_first_ones_share_one_order() -> None:
    """Due at 1010 (first turn), 1015 (later turn), 1020 (first turn): whoever is due first."""
    schedule = Schedule([0, 10, 20, 0], [Turn(3, 0, 5)])
    schedule.begin_at(1000)
    assert schedule.take() == 0
    schedule.answered(0, 1010)
    assert drain(schedule) == [(1010, 1), (1015, 3), (1020, 2)]


def test_a_failed_answer_ends_all_that_would_follow() -> None:
    """0 fails at 1030: 1 waits for 0, 2 for 1, 3 for 0 too; 4 has nothing to do with it."""
    schedule = Schedule([0, 0, 0, 0, 50], [Turn(1, 0, 5), Turn(2, 1, 5), Turn(3, 0, 9)])
    schedule.begin_at(1000)
    assert schedule.take() == 0
    assert schedule.failed(0, 1030) == 3
    assert schedule.unsent == {1: 0, 2: 0, 3: 0}
    assert schedule.due_ns == [1000, 1030, 1030, 1030, 1050]
    assert drain(schedule) == [(1050, 4)]
    assert schedule.failed(4, 1060) == 0


def test_only_awaited_answers_are_looked_at() -> None:
    """The end of any other request changes nothing."""
    schedule = Schedule([0, 0, 0], [Turn(1, 0, 0)])
    assert [schedule.has_followers(index) for index in range(3)] == [True, False, False]


def test_what_is_upcoming_counts_the_turns_that_are_known() -> None:
    """Connections are opened for first turns and for known later ones, not for unknown ones."""
    schedule = Schedule([0, 10, 20, 0, 0], [Turn(3, 0, 5), Turn(4, 3, 5)])
    assert [schedule.upcoming(horizon) for horizon in (-1, 0, 10, 99)] == [0, 1, 2, 3]
    schedule.begin_at(1000)
    schedule.take()
    schedule.answered(0, 1002)
    assert [schedule.upcoming(horizon) for horizon in (1006, 1007, 1010, 9999)] == [0, 1, 2, 3]
