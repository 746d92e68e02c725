"""How many nights in a row a verdict has been the same."""

from __future__ import annotations

import pytest

from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.store.runs import RunFolder, RunHeader
from pytest_llmperf.store.streak import nights_in_a_row


def verdict(status: Status) -> Verdict:
    """Return a verdict of one finding."""
    return Verdict("t::x", "base", "chat", (Finding("itl.mean", status, "why"),))


def night(root, number: int, day: int, status: Status | None) -> RunFolder:
    """Write a run of that November day."""
    folder = RunFolder.create(root, f"run-{number}")
    started = f"2026-11-{day:02}T03:00:0{number}+00:00"
    folder.write_header(RunHeader(f"run-{number}", started, Machine()))
    if status is not None:
        folder.write_verdict(verdict(status), "message")
    return folder


OPEN, GOOD = Status.INCONCLUSIVE, Status.PASSED


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        ([(5, OPEN)], 1),
        ([(3, OPEN), (4, OPEN), (5, OPEN)], 3),
        ([(2, OPEN), (3, GOOD), (4, OPEN), (5, OPEN)], 2),
        ([(4, OPEN), (5, OPEN), (5, OPEN)], 2),
        ([(3, OPEN), (4, None), (5, OPEN)], 2),
        ([(4, GOOD), (4, OPEN), (5, OPEN)], 2),
    ],
)
def test_nights_are_dates_and_the_newest_run_of_a_date_counts(tmp_path, nights, expected):
    """A night that did not judge the test is passed over; another status ends the row."""
    folders = [night(tmp_path, n, day, status) for n, (day, status) in enumerate(nights)]
    assert nights_in_a_row(verdict(OPEN), folders[-1].path) == expected


def test_a_damaged_run_is_passed_over(tmp_path):
    """It says nothing either way."""
    first = night(tmp_path, 0, 4, OPEN)
    last = night(tmp_path, 1, 5, OPEN)
    next((first.path / "verdicts").glob("*.json")).write_text("{")
    assert nights_in_a_row(verdict(OPEN), last.path) == 1
