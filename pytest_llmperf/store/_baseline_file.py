"""A baseline as a file that a person reviews in git.

Sorted keys, values of six significant digits, one launch's replays a line: accepting a night
shows as the lines of that night, its noise and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_llmperf.errors import BaselineError
from pytest_llmperf.model.baseline import Baseline, Night, Values
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Traffic
from pytest_llmperf.model.verdict import Noise
from pytest_llmperf.store._json import plain
from pytest_llmperf.store._recipe import recipe_of
from pytest_llmperf.store._secrets import masked_arguments, masked_mapping

SCHEMA = 1
"""Raised when the file's meaning changes; a newer one is refused, an older one migrated."""

MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = MappingProxyType({})
"""Schema n → the function that makes schema n + 1 of it. There is none older than 1."""

AGAINST = "against"
"""Under this key a server's record holds that of the server it was compared with.

The nights of such a file hold ratios, candidate / reference, a launch pair each.
"""

MOST_EXACT = 1e15
"""Whole numbers up to here are written as such, token counts to the last digit."""


def server_record(server: ServerSpec) -> dict[str, Any]:
    """Return what a baseline says of the server it was measured with, secrets masked."""
    record = {
        "engine": server.engine,
        "model": server.model,
        "arguments": list(masked_arguments(server.arguments)),
        "environment": masked_mapping(dict(server.environment)),
    }
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]
    return {"name": server.name, "digest": digest, **record}


def pair_record(candidate: ServerSpec, reference: ServerSpec) -> dict[str, Any]:
    """Return what a baseline of ratios says of the two servers, secrets masked."""
    return {**server_record(candidate), AGAINST: server_record(reference)}


def against_of(baseline: Baseline) -> str | None:
    """Return the name of the server that a baseline's ratios are to; None where it has none."""
    against = baseline.server.get(AGAINST)
    return None if against is None else str(against["name"])


def traffic_record(traffic: Traffic) -> dict[str, Any]:
    """Return a traffic's recipe and what it came to, to tell by what another one differs."""
    return {
        **recipe_of(traffic.spec),
        "counted_by": traffic.counted_by,
        "requests": len(traffic.requests),
        "prompt_tokens": sum(r.prompt.prompt_tokens for r in traffic.requests),
        "output_tokens": sum(r.prompt.output_tokens for r in traffic.requests),
    }


def rounded(figures: Mapping[str, Values], where: str) -> dict[str, Values]:
    """Return the values as they are stored; raise BaselineError for one that is not finite."""
    result = {}
    for figure, launches in figures.items():
        if not all(math.isfinite(value) for replays in launches for value in replays):
            raise BaselineError(
                f"{where}: {figure} holds a value that is not finite, and was not accepted; leave "
                "a figure out where it was not measured"
            )
        result[figure] = tuple(tuple(map(_round, replays)) for replays in launches if replays)
    return result


def encode(baseline: Baseline) -> str:
    """Return the file's text. The same baseline gives the same bytes."""
    data = {
        "schema": SCHEMA,
        "written_by": f"pytest-llmperf {version('pytest-llmperf')}",
        "machine": asdict(baseline.machine),
        "server": {**baseline.server, "name": baseline.server_name},
        "traffic": {
            **baseline.traffic,
            "name": baseline.traffic_name,
            "digest": baseline.traffic_digest,
        },
        "nights": [
            {
                "date": night.date,
                "host": night.host,
                "figures": rounded(night.figures, f"night {night.date}"),
                "provenance": night.provenance,
            }
            for night in baseline.nights
        ],
        "noise": {
            figure: {"sd": _round(noise.sd), "df": _round(noise.df)}
            for figure, noise in baseline.noise.items()
        },
        "anchor": baseline.anchor,
    }
    return _pretty(plain(data), "") + "\n"


def decode(path: Path) -> Baseline:
    """Read a baseline; raise BaselineError, saying what to do, for a file that is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _damaged(path, str(error)) from error
    except OSError as error:
        raise BaselineError(f"{path} cannot be read: {error.strerror or error}") from error
    return parse_baseline(text, path)


def parse_baseline(text: str, path: Path) -> Baseline:
    """Return what a file's text holds, as ``decode`` does; ``path`` is what errors name."""
    data = _migrated(_object(text, path), path)
    try:
        return _baseline(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise _damaged(path, what) from error


def _object(text: str, path: Path) -> dict[str, Any]:
    if "\n<<<<<<< " in f"\n{text}":
        raise _damaged(path, "it holds the conflict markers of a merge; resolve the merge")
    try:
        data = json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(data, dict):
        raise _damaged(path, f"it holds a {type(data).__name__}, not an object")
    return data


def _migrated(data: dict[str, Any], path: Path) -> dict[str, Any]:
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise _damaged(path, f"its schema is {schema!r}, not a number")
    if schema > SCHEMA:
        raise BaselineError(
            f"{path} was written by {data.get('written_by', 'a newer version')} with schema "
            f"{schema}; this is pytest-llmperf {version('pytest-llmperf')}, which reads schemas up "
            f"to {SCHEMA}. Upgrade pytest-llmperf on this runner"
        )
    while schema < SCHEMA:
        if schema not in MIGRATIONS:
            raise _damaged(path, f"there never was a schema {schema}")
        data = MIGRATIONS[schema](data)
        schema += 1
    return data


def _baseline(data: Mapping[str, Any]) -> Baseline:
    server, traffic, anchor = data["server"], data["traffic"], data["anchor"]
    if AGAINST in server:
        _text(server[AGAINST]["name"])
    nights = tuple(
        Night(
            date=_text(night["date"]),
            host=_text(night["host"]),
            figures={name: _values(name, rows) for name, rows in night["figures"].items()},
            provenance=dict(night["provenance"]),
        )
        for night in data["nights"]
    )
    return Baseline(
        machine=Machine.of(data["machine"]),
        server_name=_text(server["name"]),
        traffic_name=_text(traffic["name"]),
        traffic_digest=_text(traffic["digest"]),
        server=dict(server),
        traffic=dict(traffic),
        nights=nights,
        noise={
            figure: Noise(_number(figure, noise["sd"]), _number(figure, noise["df"]))
            for figure, noise in data["noise"].items()
        },
        anchor=None if anchor is None else dict(anchor),
    )


def _values(figure: str, launches: Any) -> Values:
    rows = tuple(tuple(_number(figure, value) for value in replays) for replays in launches)
    if not all(rows):
        raise ValueError(f"{figure} has a launch without replays")
    return rows


def _number(figure: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{figure} holds {value!r}, not a number")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no value")


def _damaged(path: Path, what: str) -> BaselineError:
    return BaselineError(
        f"{path} is damaged: {what}. Restore it from git (git checkout -- {path}), or remove it "
        "and accept a new night with --llmperf-accept"
    )


def _round(value: float) -> float:
    number = float(value)
    if number.is_integer() and abs(number) < MOST_EXACT:
        return int(number)
    return float(f"{number:.6g}")


def _pretty(value: Any, indent: str) -> str:
    """Return JSON with sorted keys; a row of scalars, or a pair of numbers, on one line."""
    deeper = indent + " "
    if isinstance(value, dict) and value:
        if len(value) == 2 and all(isinstance(v, int | float) for v in value.values()):  # noqa: PLR2004 - a noise: sd and df
            return json.dumps(value, sort_keys=True)
        items = [
            f"{deeper}{json.dumps(key, ensure_ascii=False)}: {_pretty(item, deeper)}"
            for key, item in sorted(value.items())
        ]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, list | dict) for item in value):
        rows = [f"{deeper}{_pretty(item, deeper)}" for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
