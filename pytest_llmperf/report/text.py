"""How the page says numbers, changes and statuses."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime

from pytest_llmperf.model.verdict import Finding, Status

MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
NONE = "\N{EN DASH}"
THIN = "\N{NARROW NO-BREAK SPACE}"
DIGITS = 4
"""Significant digits of a value from 1 on, so that a change of 0.1 % is seen; below, one less."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a status is shown: never by ``tone`` (its colour) alone."""

    label: str
    glyph: str
    tone: str


LOOKS = {
    Status.INVALID: Look("Invalid", "\N{EMPTY SET}", "void"),
    Status.SLO_VIOLATED: Look("Limit broken", "\N{MULTIPLICATION X}", "bad"),
    Status.REGRESSED: Look("Regressed", "\N{BLACK DOWN-POINTING TRIANGLE}", "bad"),
    Status.INCONCLUSIVE: Look("Inconclusive", "?", "open"),
    Status.NO_BASELINE: Look("No baseline", "\N{WHITE CIRCLE}", "open"),
    Status.IMPROVED: Look("Improved", "\N{BLACK UP-POINTING TRIANGLE}", "better"),
    Status.PASSED: Look("Passed", "\N{CHECK MARK}", "good"),
}


def number(value: float | None, unit: str = "") -> str:
    """Return four significant digits, thousands separated: ``1,403 tok/s``, ``9.308 ms``."""
    if value is None or math.isnan(value):
        return NONE
    if math.isinf(value):
        text = "∞"
    elif float(value).is_integer():  # a count: what is measured never is
        text = f"{abs(value):,.0f}"
    else:
        exponent = math.floor(math.log10(abs(value)))
        decimals = DIGITS - 1 - exponent if exponent >= 0 else DIGITS - 2 - exponent
        text = f"{abs(value):,.{min(max(decimals, 0), 6)}f}"
    sign = MINUS if value < 0 else ""
    return f"{sign}{text}{THIN}{unit}" if unit else f"{sign}{text}"


def percent(share: float | None, *, signed: bool = True) -> str:
    """Return ``+1.2 %``, with a true minus sign; two digits where one would round it away."""
    if share is None or math.isnan(share):
        return NONE
    value = abs(share) * 100
    small = 0 < value < 0.095  # noqa: PLR2004 - rounds to 0.1 from here on
    digits = "∞" if math.isinf(value) else f"{value:.{2 if small else 1}f}"
    sign = MINUS if share < 0 else "+" if signed and share > 0 else ""
    return f"{sign}{digits}{THIN}%"


def interval(ends: tuple[float, float] | None) -> str:
    """Return ``+5.9 … +7.4 %``."""
    if ends is None:
        return NONE
    low, high = (percent(end) for end in ends)
    return f"{low.removesuffix(f'{THIN}%')} … {high}"


def change(finding: Finding) -> str:
    """Return a finding in one line: ``itl.mean 9.24 → 9.88 ms, +6.9 % (+5.7 … +8.1 %)``."""
    parts = [finding.figure]
    if finding.value is not None and finding.reference is not None and finding.kind != "slo":
        parts.append(f"{number(finding.reference)} → {number(finding.value, finding.unit)}")
    elif finding.value is not None:
        parts.append(number(finding.value, finding.unit))
    said = " ".join(parts)
    if finding.change is None or finding.kind == "slo":
        return said
    ends = f" ({interval(finding.interval)})" if finding.interval else ""
    return f"{said}, {percent(finding.change)}{ends}"


def evidence(finding: Finding) -> str:
    """Return what a finding rests on: launches, replays, nights, noise, what it could see."""
    parts = []
    if finding.launches:
        parts.append(
            f"{count(finding.launches, 'launch')} {TIMES} {count(finding.replays, 'replay')}"
        )
    if finding.nights:
        parts.append(f"against {count(finding.nights, 'accepted night')}")
    said = " ".join(parts)
    if finding.noise != "none":
        said += f"{', ' if said else ''}noise {finding.noise}"
    if finding.smallest_detectable_change is not None:
        sees = percent(finding.smallest_detectable_change, signed=False)
        said += f"{', ' if said else ''}sees losses from {sees}"
    return said


def count(number_of: int, word: str) -> str:
    """Return ``1 launch``, ``3 launches``."""
    ending = "es" if word.endswith("ch") else "s"
    return f"{number_of:,} {word}{'' if number_of == 1 else ending}"


def moment(iso: str) -> str:
    """Return an ISO 8601 instant as ``2026-11-30 10:15:00 UTC``, or the text itself."""
    try:
        when = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = when.tzname() or ""
    return f"{when:%Y-%m-%d %H:%M:%S} {zone}".rstrip()


def slug(*words: str) -> str:
    """Return an id for the page: letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")
