"""Lengths in tokens: their statistics and a histogram."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_llmperf.cli._text import table
from pytest_llmperf.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PERCENTILES = (25, 50, 75, 90, 95, 99)
WHOLE = ("count", "min", "max")
BINS = 20
BAR = 40
"""Characters of the longest bar."""
STEPS = (1, 2, 5)
"""Widths of bins that a reader can add up: these times powers of ten."""
MOST_TOKENS = 2**53
"""A length that arithmetic in doubles is exact for; no text has as many tokens."""


@dataclass(frozen=True, slots=True)
class Bin:
    """How many lengths are at least ``low`` and below ``high``; None: no upper end."""

    low: int
    high: int | None
    count: int


@dataclass(frozen=True)
class Lengths:
    """What is known of the requests' lengths: one entry a request in each, in the same order."""

    prompt: Sequence[int]
    output: Sequence[int]

    def __post_init__(self) -> None:
        for name, values in (("prompt", self.prompt), ("output", self.output)):
            if max(values, default=0) > MOST_TOKENS:
                raise UsageError(
                    f"a length ({name}) is above 2**53 tokens, which no text has: look for a "
                    "mistake in the dataset's options or file"
                )

    @property
    def named(self) -> Mapping[str, Sequence[int]]:
        """Prompt, output and both together, by name."""
        total = [prompt + output for prompt, output in zip(self.prompt, self.output, strict=True)]
        return {"prompt": self.prompt, "output": self.output, "total": total}


def statistics(lengths: Sequence[int]) -> dict[str, float]:
    """Return count, mean, std (of the population), min, percentiles (linear) and max."""
    values = np.asarray(lengths, dtype=np.float64)
    percentiles = np.percentile(values, PERCENTILES).tolist()
    return {
        "count": len(lengths),
        "mean": float(values.mean()),
        "std": float(values.std()),
        "min": float(values.min()),
        **{f"{share} %": value for share, value in zip(PERCENTILES, percentiles, strict=True)},
        "max": float(values.max()),
    }


def histogram(lengths: Sequence[int], bins: int = BINS) -> list[Bin]:
    """Return at most ``bins`` bins of one round width, and one for the last hundredth.

    The bins end behind the 99th percentile: a few very long texts would otherwise leave all
    others in the first one. What is longer is counted in a bin without an end.
    """
    values = np.asarray(lengths, dtype=np.int64)
    low, high = int(values.min()), int(values.max())
    top = math.ceil(np.percentile(values, 99))
    width = _round_width((top - low + 1) / bins)
    start = low // width * width
    while (top - start) // width >= bins:  # starting at a round number may take one bin more
        width = _round_width(width + 1)
        start = low // width * width
    edges = list(range(start, top + width + 1, width))
    if edges[-2] > top:
        edges.pop()
    counts = np.histogram(values[values < edges[-1]], bins=edges)[0].tolist()
    found = [Bin(a, b, n) for a, b, n in zip(edges, edges[1:], counts, strict=False)]
    beyond = int((values >= edges[-1]).sum())
    return [*found, Bin(edges[-1], None, beyond)] if high >= edges[-1] else found


def _round_width(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50, … that is at least that much."""
    power = 1
    while True:
        for step in STEPS:
            if step * power >= least:
                return step * power
        power *= 10


def statistics_lines(lengths: Lengths) -> Iterator[str]:
    """Yield a table: a row a statistic, a column each for prompt, output and both."""
    columns = {name: statistics(values) for name, values in lengths.named.items()}
    rows = [
        (key, *(_shown(key, of[key]) for of in columns.values()))
        for key in next(iter(columns.values()))
    ]
    yield from table(("tokens", *columns), rows, right="123")


def _shown(key: str, value: float) -> str:
    return f"{value:,.0f}" if key in WHOLE else f"{value:,.1f}"


def histogram_lines(name: str, lengths: Sequence[int], bins: int) -> Iterator[str]:
    """Yield a histogram: range, bar, count and share a line."""
    found = histogram(lengths, bins)
    most = max(one.count for one in found)
    yield f"{name} tokens"
    rows = [
        (
            f"{one.low:,}",
            "–",
            "∞" if one.high is None else f"{one.high - 1:,}",
            f"{one.count:,}",
            f"{one.count / len(lengths):.1%}",
            _bar(one.count, most),
        )
        for one in found
    ]
    for line in table((), rows, right="0234"):
        yield f"  {line}"


def _bar(count: int, most: int) -> str:
    size = round(BAR * count / most)
    return "█" * size if size or not count else "▏"


def plain(lengths: Lengths, bins: int) -> dict[str, Any]:
    """Return statistics and histograms as JSON has them."""
    return {
        "statistics": {name: statistics(values) for name, values in lengths.named.items()},
        "histograms": {
            name: [
                {"from": one.low, "below": one.high, "count": one.count}
                for one in histogram(values, bins)
            ]
            for name, values in lengths.named.items()
        },
    }
