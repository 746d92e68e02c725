"""Slo: an absolute limit on a figure, as a suite writes it: ``"< 200 ms"``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_llmperf.errors import SloError

UNITS = {
    "ns": ("ms", 1e-6),
    "us": ("ms", 1e-3),
    "µs": ("ms", 1e-3),
    "ms": ("ms", 1.0),
    "s": ("ms", 1e3),
    "tok/s": ("tok/s", 1.0),
    "req/s": ("req/s", 1.0),
    "GiB": ("GiB", 1.0),
    "tokens": ("tokens", 1.0),
    "%": ("", 0.01),
    "x": ("", 1.0),
}
"""Unit as written → the unit of the figure it fits, and the factor to it."""

PATTERN = re.compile(
    r"\s*(<=|>=|<|>)\s*([0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*"
)
EXAMPLES = '"< 200 ms", "<= 0.05 s", "> 1000 tok/s", "< 1 %"'


@dataclass(frozen=True, slots=True)
class Slo:
    """``figure`` must stay on the good side of ``limit`` (in the figure's own unit)."""

    figure: str
    upper: bool
    limit: float
    text: str

    @classmethod
    def parse(cls, figure: str, text: object, unit: str) -> Slo:
        """Read ``text`` as a limit on a figure of that unit.

        Raise SloError for anything but ``[<|<=|>|>=] NUMBER [UNIT]``, and for a unit that
        does not fit the figure. A number without a unit is in the figure's own.
        """
        match = PATTERN.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise SloError(
                f"slo for {figure!r}: cannot read {text!r}; write a comparison, a number and a "
                f"unit, such as {EXAMPLES}"
            )
        sign, number, written = match.groups()
        factor = 1.0
        if written:
            if written not in UNITS:
                raise SloError(
                    f"slo for {figure!r}: unknown unit {written!r} in {text!r}; known: "
                    f"{', '.join(UNITS)}"
                )
            base, factor = UNITS[written]
            if unit == "s" and base == "ms":
                base, factor = "s", factor / 1e3
            if base != unit:
                raise SloError(
                    f"slo for {figure!r}: {text!r} is in {written}, but the figure is in "
                    f"{unit or 'no unit'}"
                )
        limit = float(number.replace("_", "").replace(",", "")) * factor
        return cls(
            figure, sign.startswith("<"), limit, text.strip() if isinstance(text, str) else ""
        )
