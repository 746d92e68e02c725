"""How a finding's reason says numbers."""

from __future__ import annotations


def percent(share: float) -> str:
    """Return ``4.8 %``; two digits below a tenth of a percent, so that little is not nothing."""
    value = abs(share) * 100
    digits = 1 if value >= 0.095 or value == 0 else 2  # noqa: PLR2004 - 0.095 rounds to 0.1
    sign = "\N{MINUS SIGN}" if share < 0 else ""
    return f"{sign}{value:.{digits}f} %"


def level(alpha: float) -> str:
    """Return the confidence of a bound: ``99 %``, ``99.92 %``."""
    return f"{100 * (1 - alpha):.4g} %"


def moved(change: float) -> str:
    """Return ``4.8 % lower``, ``0.3 % higher`` or ``unchanged``."""
    if change == 0:
        return "unchanged"
    return f"{percent(abs(change))} {'higher' if change > 0 else 'lower'}"


def count(number: int, word: str) -> str:
    """Return ``1 night``, ``3 nights``, ``2 launches``."""
    ending = "es" if word.endswith("ch") else "s"
    return f"{number} {word}{'' if number == 1 else ending}"


def measured(value: float) -> str:
    """Return four significant digits, thousands separated."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # noqa: PLR2004
