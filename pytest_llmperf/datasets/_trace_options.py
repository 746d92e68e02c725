"""The options of ``trace``, checked, and the reader of rows that they describe."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmperf.datasets._files import path_rule
from pytest_llmperf.datasets._token_ids import TokenIdOptions, owner_of, read_options
from pytest_llmperf.datasets._trace_rows import (
    COLUMN_NAMES,
    FORMATS,
    JSON_LINES,
    NEEDED,
    Columns,
    Format,
    RowReader,
)
from pytest_llmperf.model.options import is_count, is_number, require
from pytest_llmperf.model.traffic import thaw

if TYPE_CHECKING:
    from pytest_llmperf.model.traffic import TrafficSpec

TOO_LONG = ("clip", "skip")


@dataclass(frozen=True, slots=True)
class TraceOptions(TokenIdOptions):
    """What ``trace`` takes; mappings are as frozen with the spec."""

    path: str
    format: str | None = None
    columns: Any = None
    unit_s: float | None = None
    where: Any = None
    start_s: float = 0.0
    duration_s: float | None = None
    speed: float = 1.0
    max_input_len: int | None = None
    max_output_len: int | None = None
    too_long: str = "clip"
    block_tokens: int = 512

    @property
    def end_s(self) -> float:
        """Where the window ends, in seconds after the trace's first row."""
        return math.inf if self.duration_s is None else self.start_s + self.duration_s

    @property
    def window(self) -> str:
        """The window in words, for messages."""
        if self.duration_s is None:
            return f"from {self.start_s:g} s on" if self.start_s else "in all"
        return f"between {self.start_s:g} and {self.end_s:g} s"


def read_trace_options(spec: TrafficSpec) -> tuple[TraceOptions, RowReader]:
    """Return the options of a spec, checked, and what reads its rows."""
    options = read_options(spec, TraceOptions, counts=(), at_least_1=("block_tokens",))
    _require_values(spec, options)
    known = _format(spec, options)
    return options, RowReader(
        known.columns,
        options.unit_s or known.unit_s,
        known.json_lines,
        options.block_tokens,
        _mapping(spec, "where", options.where),
    )


def _require_values(spec: TrafficSpec, options: TraceOptions) -> None:
    above_0 = {name: getattr(options, name) for name in ("unit_s", "duration_s", "speed")}
    lengths = {name: getattr(options, name) for name in ("max_input_len", "max_output_len")}
    require(
        owner_of(spec),
        path_rule(options.path),
        (
            options.format is None or options.format in FORMATS,
            f"format is {options.format!r}, known: {', '.join(FORMATS)}",
        ),
        (
            is_number(options.start_s) and 0 <= options.start_s < math.inf,
            f"start_s is {options.start_s!r}, not a number of at least 0",
        ),
        (
            options.too_long in TOO_LONG,
            f"too_long is {options.too_long!r}, known: {', '.join(TOO_LONG)}",
        ),
        *(
            (
                (value is None and name != "speed") or (is_number(value) and 0 < value < math.inf),
                f"{name} is {value!r}, not a number above 0",
            )
            for name, value in above_0.items()
        ),
        *(
            (value is None or is_count(value, 1), f"{name} is {value!r}, at least 1 is needed")
            for name, value in lengths.items()
        ),
    )


def _format(spec: TrafficSpec, options: TraceOptions) -> Format:
    """Return the format named, with those of ``columns`` in place of its own."""
    own = _mapping(spec, "columns", options.columns)
    known = FORMATS.get(options.format or "")
    columns = (asdict(known.columns) if known else {}) | own
    require(
        owner_of(spec),
        *(
            (name in COLUMN_NAMES, f"columns has {name!r}, known: {', '.join(COLUMN_NAMES)}")
            for name in own
        ),
        *(
            (
                name in columns,
                (
                    f"columns does not say which is {name!r}; say it, or set format to "
                    f"{' or '.join(map(repr, FORMATS))}"
                ),
            )
            for name in NEEDED
        ),
    )
    if known is not None:
        return replace(known, columns=Columns(**columns))
    is_json = Path(options.path).suffix.lower() in JSON_LINES
    return Format(Columns(**columns), json_lines=is_json)


def _mapping(spec: TrafficSpec, name: str, frozen: Any) -> dict[str, str]:
    """Return an option that is a mapping of texts; it was frozen with the spec."""
    value = None if frozen is None else thaw(((name, frozen),))[name]
    is_texts = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
    require(
        owner_of(spec),
        (value is None or is_texts, f"{name} is {value!r}, not a mapping of names to texts"),
    )
    return value or {}
