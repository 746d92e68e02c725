"""Charts as data for plotly: small, escaped, and in colours that the page resolves.

A colour is the name of one of the page's CSS variables (``--series-1``); the page's script
puts the value of the reader's theme in its place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from markupsafe import Markup

SERIES = tuple(f"--series-{number}" for number in range(1, 9))
DIGITS = 5
_TEMPLATES = ("hovertemplate", "texttemplate")
"""Written here and never from a run's own words, so their markup is wanted."""


@dataclass(frozen=True)
class Chart:
    """``alt`` says in words what the chart shows, for those who cannot see it."""

    traces: Sequence[Mapping[str, Any]]
    alt: str
    caption: str = ""
    layout: Mapping[str, Any] = field(default_factory=dict)
    height: int = 260

    @property
    def json(self) -> Markup:
        """Its data, safe inside a script element."""
        data = {"data": _plain(self.traces), "layout": _plain(self.layout)}
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        for sign in "<>&\u2028\u2029":
            text = text.replace(sign, f"\\u{ord(sign):04x}")
        return Markup(text)  # noqa: S704 - nothing is left in it that HTML would read


def series(position: int) -> str:
    """Return the colour of the ``position``-th series, from 0."""
    return SERIES[position % len(SERIES)]


def _plain(value: Any, key: str = "") -> Any:
    """Return what JSON can hold: rounded, without NaN, its texts as text to plotly."""
    if isinstance(value, Mapping):
        return {name: _plain(item, name) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item, key) for item in value]
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, str):  # plotly reads tags and entities in any text
        return value if key in _TEMPLATES else escape(value, quote=False)
    return value


def _rounded(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded  # noqa: PLR2004
