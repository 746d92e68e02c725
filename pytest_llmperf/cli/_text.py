"""Plain text for a terminal: tables that line up, one number format for all calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GAP = "  "


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> Iterator[str]:
    """Yield the lines of a table, columns two spaces apart, none with spaces at its end.

    ``right`` names the columns that are set flush right, by position: ``"12"`` the second and
    the third. An empty head gives no head line.
    """
    lines = [list(head), *map(list, rows)] if head else [list(row) for row in rows]
    if not lines:
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.rjust(width) if str(position) in right else cell.ljust(width)
            for position, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield GAP.join(cells).rstrip()


def listed(words: Sequence[str], most: int = 3) -> str:
    """Return words with commas; of more than ``most`` the first ones and how many are left."""
    rest = len(words) - most
    return ", ".join(words[:most]) + (f" and {rest} more" if rest > 0 else "")


def counted(number: int, word: str) -> str:
    """Return ``1 launch``, ``3 launches``, ``2 replays``."""
    ending = "es" if word.endswith("ch") else "s"
    return f"{number:,} {word}{'' if number == 1 else ending}"
