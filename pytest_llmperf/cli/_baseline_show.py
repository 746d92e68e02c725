"""``pytest-llmperf baseline show``: which baselines there are, and what one holds."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pytest_llmperf.cli._baseline_files import name_of
from pytest_llmperf.cli._text import counted, table
from pytest_llmperf.errors import UnknownNameError
from pytest_llmperf.gate.ratio_nights import TIMES
from pytest_llmperf.metrics import figure, gated_figures
from pytest_llmperf.model.noise import night_mean
from pytest_llmperf.store.baselines import against_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_llmperf.cli._baseline_files import Held
    from pytest_llmperf.model.baseline import Baseline, Night, Values
    from pytest_llmperf.model.metric import Figure

NOTHING = "\N{EN DASH}"
OVERVIEW = ("server", "traffic", "digest", "nights", "last night", "anchor")


def overview(found: Sequence[tuple[Path, Baseline]]) -> Iterator[str]:
    """Yield a table of files, one machine after the other."""
    machine = None
    rows: list[tuple[str, ...]] = []
    for path, baseline in found:
        if path.parts[-3:-2] != machine and rows:
            yield from _machine(machine, rows)
            rows = []
        machine = path.parts[-3:-2]
        last = baseline.nights[-1].date if baseline.nights else NOTHING
        pinned = baseline.anchor["date"] if baseline.anchor else NOTHING
        held = str(len(baseline.nights))
        rows.append(
            (who(baseline), baseline.traffic_name, baseline.traffic_digest, held, last, pinned)
        )
    if rows:
        yield from _machine(machine, rows)


def _machine(key: tuple[str, ...] | None, rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield "".join(key or ())
    yield from (f"  {line}" for line in table(OVERVIEW, rows, right="3"))


def who(baseline: Baseline) -> str:
    """Return the server, or the pair whose ratios these are."""
    against = against_of(baseline)
    return baseline.server_name if against is None else f"{baseline.server_name} / {against}"


def details(held: Held, names: Sequence[str], last: int) -> Iterator[str]:
    """Yield all about one baseline: what was run, its nights, the figures of the last of them."""
    baseline = held.baseline
    yield held.label
    yield f"machine  {baseline.machine.key}: {_pairs(baseline.machine.identity)}"
    yield f"server   {_server(baseline.server_name, baseline.server)}"
    if (against := baseline.server.get("against")) is not None:
        yield f"against  {_server(against['name'], against)}"
        yield f"         its nights hold {who(baseline)}, a ratio a launch pair"
    recipe = {k: v for k, v in baseline.traffic.items() if k not in ("name", "digest")}
    yield f"traffic  {baseline.traffic_name} {baseline.traffic_digest}: {_pairs(recipe)}"
    yield f"anchor   {anchor(baseline.anchor)}"
    yield ""
    yield from _nights(baseline.nights)
    yield ""
    yield from _figures(baseline, names, last)


def anchor(pinned: Mapping[str, Any] | None) -> str:
    """Say what creep is measured from."""
    if pinned is None:
        return "none"
    by, at = pinned.get("accepted_by", "unknown"), pinned.get("accepted_at", "")
    return f"{pinned.get('date')} on {pinned.get('host')}: {pinned.get('reason')} ({by}, {at})"


def _server(name: str, record: Mapping[str, Any]) -> str:
    words = [record.get("engine"), record.get("model"), *record.get("arguments", ())]
    env = " ".join(f"{k}={v}" for k, v in sorted(record.get("environment", {}).items()))
    command = " ".join(str(word) for word in words if word)
    return f"{name}: {command}{f' (environment {env})' if env else ''}"


def _pairs(mapping: Mapping[str, Any]) -> str:
    """Say what is set, one level of nesting in brackets."""
    said = []
    for key, value in mapping.items():
        if isinstance(value, dict):
            inner = _pairs(value)
            said += [f"{key} ({inner})"] if inner else []
        elif value not in (None, [], ""):
            said.append(f"{key} {value}")
    return ", ".join(said)


def _nights(nights: Sequence[Night]) -> Iterator[str]:
    head = ("night", "host", "measured", "engine", "then", "accepted by", "run")
    yield from table(head, [(night.date, night.host, *told(night)) for night in nights])


def told(night: Night) -> tuple[str, ...]:
    """Return what a night's provenance tells: size, engine, status, who accepted which run."""
    of = night.provenance
    engines = [of.get("engine_version"), of.get("reference_engine_version")]
    runs = of.get("runs") or [of.get("run")]
    return (
        size(night),
        " / ".join(str(engine) for engine in engines if engine) or NOTHING,
        str(of.get("status") or NOTHING),
        str(of.get("accepted_by") or NOTHING),
        ", ".join(str(run) for run in runs if run) or NOTHING,
    )


def size(night: Night) -> str:
    """Return ``3 launches × 5 replays``, of the figure that has most."""
    shapes = [(len(rows), max(map(len, rows))) for rows in night.figures.values() if rows]
    if not shapes:
        return "nothing"
    launches, replays = max(shapes)
    return f"{counted(launches, 'launch')} × {counted(replays, 'replay')}"


def _figures(baseline: Baseline, names: Sequence[str], last: int) -> Iterator[str]:
    nights = baseline.nights[-last:]
    of_ratios = against_of(baseline) is not None
    rows = []
    for name in names:
        noise = baseline.noise.get(name)
        said = f"{noise.sd:.2%} ({noise.df:g})".replace("%", " %") if noise else NOTHING
        cells = [_cell(night.figures.get(name, ())) for night in nights]
        rows.append((name, TIMES if of_ratios else unit(name), *cells, said))
    dates = [night.date for night in nights]
    if rows:
        yield from table(("figure", "", *dates, "nights differ"), rows)
        yield "mean of a night \N{PLUS-MINUS SIGN} how its launches differ (CV); nights differ: sd of night means (df)"


def _cell(launches: Values) -> str:
    from pytest_llmperf.campaign.message import number

    if not launches:
        return NOTHING
    apart = spread(launches)
    return number(night_mean(launches)) + (
        "" if apart is None else f" \N{PLUS-MINUS SIGN}{apart:.2%}".replace("%", " %")
    )


def spread(launches: Values) -> float | None:
    """Return the coefficient of variation of launch means; None below two launches, or of 0."""
    means = [statistics.fmean(row) for row in launches]
    center = statistics.fmean(means)
    return statistics.stdev(means) / abs(center) if len(means) > 1 and center else None


def known_figure(name: str) -> Figure | None:
    """Return the figure, if this version has its metric."""
    try:
        return figure(name)
    except UnknownNameError:
        return None


def unit(name: str) -> str:
    """Return a figure's unit; nothing where this version does not know it."""
    of = known_figure(name)
    return of.unit if of else ""


def shown_figures(baselines: Sequence[Baseline], asked: Sequence[str], *, every: bool) -> list[str]:
    """Return the figures to show of those that are stored: asked for, all, or the gated ones."""
    stored = sorted({name for b in baselines for night in b.nights for name in night.figures})
    if every:
        return stored
    if asked:
        for name in asked:
            if name not in stored:
                figure(name)  # tells a typo; what exists and is not stored is left out
        return [name for name in asked if name in stored]
    return [of.name for of in gated_figures() if of.name in stored] or stored


def as_json(path: Path, held: Baseline) -> dict[str, Any]:
    """Return everything that ``show`` can tell of a baseline, as plain values."""
    return {
        "path": str(path),
        "name": name_of(path),
        "machine": {"key": held.machine.key, **asdict(held.machine)},
        "server": dict(held.server),
        "against": against_of(held),
        "traffic": dict(held.traffic),
        "anchor": held.anchor and dict(held.anchor),
        "noise": {name: asdict(noise) for name, noise in sorted(held.noise.items())},
        "nights": [
            {
                "date": night.date,
                "host": night.host,
                "provenance": dict(night.provenance),
                "figures": {
                    name: {
                        "mean": night_mean(rows),
                        "cv_between_launches": spread(rows),
                        "launches": len(rows),
                        "replays": max(map(len, rows)),
                    }
                    for name, rows in sorted(night.figures.items())
                    if rows
                },
            }
            for night in held.nights
        ],
    }
