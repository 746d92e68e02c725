"""Numbers as the page says them: enough digits to see a change, and no more."""

from __future__ import annotations

import math

import pytest

from pytest_llmperf.model.verdict import Finding, Status
from pytest_llmperf.report import text

THIN, MINUS = "\N{NARROW NO-BREAK SPACE}", "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1403.679, "1,404"),
        (286.442, "286.4"),
        (27.5234, "27.52"),
        (9.308, "9.308"),
        (0.12345, "0.123"),
        (0.000123, "0.000123"),
        (650560.0, "650,560"),
        (8192, "8,192"),
        (0.0, "0"),
        (-1.5, f"{MINUS}1.500"),
        (math.inf, "∞"),
        (math.nan, "\N{EN DASH}"),
        (None, "\N{EN DASH}"),
    ],
)
def test_values_have_four_digits(value: float | None, expected: str) -> None:
    """Four significant digits from 1 on, three below; counts whole; what is absent a dash."""
    assert text.number(value) == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (-0.0656, f"{MINUS}6.6{THIN}%"),
        (0.24159, f"+24.2{THIN}%"),
        (0.0004, f"+0.04{THIN}%"),
        (0.0, f"0.0{THIN}%"),
        (math.inf, f"+∞{THIN}%"),
        (None, "\N{EN DASH}"),
    ],
)
def test_changes_are_signed_percents(share: float | None, expected: str) -> None:
    """One digit, or two where one would say that nothing changed."""
    assert text.percent(share) == expected


def test_a_finding_is_one_line() -> None:
    """Figure, baseline, now, change and interval; the unit once."""
    finding = Finding(
        "itl.mean", Status.REGRESSED, "", value=9.88, reference=9.24, change=0.0693,
        interval=(0.057, 0.081), unit="ms",
    )  # fmt: skip
    assert text.change(finding) == (
        f"itl.mean 9.240 → 9.880{THIN}ms, +6.9{THIN}% (+5.7 … +8.1{THIN}%)"
    )


def test_a_limit_is_told_without_a_change() -> None:
    """Beside a limit the change would be the distance to it, which is no regression."""
    finding = Finding(
        "ttft.p99", Status.SLO_VIOLATED, "", kind="slo", value=241.0, reference=200.0,
        change=0.205, unit="ms",
    )  # fmt: skip
    assert text.change(finding) == f"ttft.p99 241{THIN}ms"


def test_evidence_says_what_a_finding_rests_on() -> None:
    """Launches, replays, nights, where the noise is from, and what the data could see."""
    finding = Finding(
        "itl.mean", Status.PASSED, "", launches=3, replays=1, nights=10, noise="pooled",
        smallest_detectable_change=0.0216,
    )  # fmt: skip
    assert text.evidence(finding) == (
        "3 launches \N{MULTIPLICATION SIGN} 1 replay against 10 accepted nights, noise pooled, "
        f"sees losses from 2.2{THIN}%"
    )
    assert text.evidence(Finding("measurement", Status.INVALID, "client-bound")) == ""


def test_instants_keep_their_zone() -> None:
    """What is no instant is shown as it is."""
    assert text.moment("2026-11-30T10:15:00+01:00") == "2026-11-30 10:15:00 UTC+01:00"
    assert text.moment("last night") == "last night"


def test_every_status_has_a_look_of_its_own() -> None:
    """A status is told by a word and a sign, so no two may share them."""
    assert set(text.LOOKS) == set(Status)
    assert len({look.label for look in text.LOOKS.values()}) == len(Status)
    assert len({look.glyph for look in text.LOOKS.values()}) == len(Status)
