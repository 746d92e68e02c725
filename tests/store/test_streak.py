"""How many nights in a row a verdict has been the same."""

from __future__ import annotations

import pytest

from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.store.runs import RunFolder, RunHeader
from pytest_llmperf.store.streak import nights_in_a_row


def verdict(status: Status) -> Verdict:
    """Return a verdict of one finding."""
    return Verdict("t::x", "base", "chat", (Finding("itl.mean", status, "why"),))


H200, A100 = Machine("NVIDIA H200", 1), Machine("NVIDIA A100", 1)
CHAT = Traffic(TrafficSpec("chat", "random"), (Request(0, 0, Prompt("Hello", 5, 7)),))
CUT = Traffic(CHAT.spec, CHAT.requests * 2)


def night(
    root,
    number: int,
    day: int,
    status: Status | None,
    machine: Machine = H200,
    traffics: tuple[Traffic, ...] = (CHAT,),
) -> RunFolder:
    """Write a run of that November day."""
    folder = RunFolder.create(root, f"run-{number}")
    started = f"2026-11-{day:02}T03:00:0{number}+00:00"
    header = RunHeader(f"run-{number}", started, machine, simulated=machine.simulated)
    folder.write_header(header)
    for traffic in traffics:
        folder.write_traffic(traffic)
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


@pytest.mark.parametrize("status", [OPEN, GOOD])
@pytest.mark.parametrize(
    "rehearsal",
    [
        {"machine": A100},
        {"machine": Machine(simulated=True)},
        {"traffics": (CUT,)},
        {"traffics": ()},
        {"traffics": (Traffic(TrafficSpec("chat-long", "random"), CHAT.requests),)},
    ],
)
def test_what_is_not_comparable_is_passed_over(tmp_path, status, rehearsal):
    """Another machine, a simulated one or a cut traffic neither counts nor ends the row."""
    night(tmp_path, 0, 3, OPEN)
    night(tmp_path, 1, 4, status, **rehearsal)
    night(tmp_path, 2, 5, status, **rehearsal)
    last = night(tmp_path, 3, 5, OPEN)
    assert nights_in_a_row(verdict(OPEN), last.path) == 2


def test_a_rehearsal_counts_among_its_own(tmp_path):
    """A week of cut traffic on another machine is a row of its own."""
    for number, day in enumerate((3, 4)):
        night(tmp_path, number, day, OPEN, A100, (CUT,))
    last = night(tmp_path, 2, 5, OPEN, A100, (CUT,))
    assert nights_in_a_row(verdict(OPEN), last.path) == 3


def test_a_traffic_of_several_digests_is_the_same(tmp_path):
    """Another server beside it that counts tokens differently changes nothing."""
    night(tmp_path, 0, 4, OPEN, traffics=(CHAT, CUT))
    last = night(tmp_path, 1, 5, OPEN)
    assert nights_in_a_row(verdict(OPEN), last.path) == 2
