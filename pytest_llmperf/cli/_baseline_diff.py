"""``pytest-llmperf baseline diff``: what changed between two baselines, as a reviewer reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_llmperf.cli._baseline_show import anchor, known_figure, told, unit, who
from pytest_llmperf.cli._text import counted, listed, table
from pytest_llmperf.gate import EXACT_TOLERANCE, Rule
from pytest_llmperf.gate.ratio_nights import TIMES
from pytest_llmperf.model.noise import night_mean
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.store.baselines import AGAINST, NOISE_NIGHTS, against_of
from pytest_llmperf.store.recipes import recipe_differences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_llmperf.cli._baseline_files import Held
    from pytest_llmperf.model.baseline import Baseline, Night

MINUS = "\N{MINUS SIGN}"
VERSIONS = ("engine_version", "reference_engine_version", "pytest-llmperf", "python", "pytest")


def difference(before: Held, after: Held, names: Sequence[str]) -> dict[str, Any]:
    """Return everything that differs, as plain values.

    ``comparable``: whether the gate would compare one with the other. ``run``: what was run
    differently, in words. Figures: mean of the nights that the gate compares with (the last
    ten), and how far the later one lies from its anchor.
    """
    old, new = before.baseline, after.baseline
    others = _apart(old, new)
    return {
        "from": before.label,
        "to": after.label,
        "comparable": not others,
        "not_comparable": others,
        "run": _run(old, new),
        "anchor": None
        if old.anchor == new.anchor
        else {"from": anchor(old.anchor), "to": anchor(new.anchor)},
        "nights": _nights(old, new),
        "figures": {name: _figure(name, old, new) for name in names},
    }


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield a difference in words."""
    yield f"{found['from']} → {found['to']}"
    for what in found["not_comparable"]:
        yield f"  {what}"
    if not found["comparable"]:
        yield "  these are never compared with one another: what follows is no verdict"
    yield from (f"  {what}" for what in found["run"])
    if found["anchor"]:
        yield f"  anchor moved from {found['anchor']['from']} to {found['anchor']['to']}"
    nights = found["nights"]
    yield from (f"  + night {night}" for night in nights["added"])
    yield from (f"  {MINUS} night {night}" for night in nights["removed"])
    yield from (f"  ~ night {night}" for night in nights["changed"])
    if not any([*nights.values(), found["run"], found["anchor"], found["not_comparable"]]):
        yield "  nothing differs"
        return
    yield from (f"  {line}" for line in _table(found["figures"]))


def _apart(old: Baseline, new: Baseline) -> list[str]:
    """Return why the gate would not compare the two."""
    found = [f"machine {what}" for what in old.machine.differences(new.machine)]
    if who(old) != who(new):
        found.append(f"server {who(old)} → {who(new)}")
    if (old.traffic_name, old.traffic_digest) != (new.traffic_name, new.traffic_digest):
        was, now = (f"{b.traffic_name} {b.traffic_digest}" for b in (old, new))
        found.append(f"traffic {was} → {now}")
        found += [f"traffic, {what}" for what in recipe_differences(old.traffic, new.traffic)]
    return found


def _run(old: Baseline, new: Baseline) -> list[str]:
    """Return how what was run differs: arguments, environment, versions."""
    from pytest_llmperf.campaign.message import differences

    bare = replace(old, nights=())  # versions are told below, each under its own name
    found = differences(_spec(new.server), bare, None)
    was, now = (b.server.get(AGAINST) for b in (old, new))
    if was and now:
        told_of = differences(_spec(now), replace(bare, server=was), None)
        found += [f"{now['name']}: {what}" for what in told_of]
    versions = [b.nights[-1].provenance if b.nights else {} for b in (old, new)]
    for key in VERSIONS:
        then, there = (version.get(key) for version in versions)
        if then and there and then != there:
            found.append(f"{key.replace('_', ' ')} {then} → {there}")
    return found


def _spec(record: Mapping[str, Any]) -> ServerSpec:
    return ServerSpec.of(
        str(record.get("name")),
        str(record.get("engine")),
        str(record.get("model")),
        record.get("arguments", ()),
        record.get("environment", {}),
    )


def _nights(old: Baseline, new: Baseline) -> dict[str, list[str]]:
    was, now = ({(n.date, n.host): n for n in b.nights} for b in (old, new))
    both = [key for key in now if key in was and now[key] != was[key]]
    return {
        "added": [_night(now[key]) for key in now if key not in was],
        "removed": [_night(was[key]) for key in was if key not in now],
        "changed": [_changed(was[key], now[key]) for key in both],
    }


def _night(night: Night) -> str:
    measured, engine, status, by, run = told(night)
    return (
        f"{night.date} on {night.host}: {measured}, engine {engine}, {status}, by {by}, run {run}"
    )


def _changed(was: Night, now: Night) -> str:
    """Say whether launches were added to a night, or values in it are others than before."""
    where = f"{now.date} on {now.host}"
    names = sorted(was.figures.keys() | now.figures.keys())
    pairs = {name: (was.figures.get(name, ()), now.figures.get(name, ())) for name in names}
    edited = [name for name, (then, there) in pairs.items() if there[: len(then)] != then]
    if edited:
        return f"{where}: values that were accepted are others now: {listed(edited, most=8)}"
    more = max((len(there) - len(then) for then, there in pairs.values()), default=0)
    if more:
        return f"{where}: {counted(more, 'launch')} added, run {told(now)[-1]}"
    return f"{where}: the same values, another provenance"


def _figure(name: str, old: Baseline, new: Baseline) -> dict[str, Any]:
    then, there = _mean(old, name), _mean(new, name)
    pinned = (new.anchor or {}).get("figures", {}).get(name)
    change = _change(then, there)
    return {
        "unit": TIMES if against_of(new) else unit(name),
        "from": then,
        "to": there,
        "change": change,
        "from_anchor": _change(pinned, there),
        "means": _means(name, change),
    }


def _mean(baseline: Baseline, name: str) -> float | None:
    nights = baseline.values(name)[-NOISE_NIGHTS:]
    return night_mean([[night_mean(night)] for night in nights]) if nights else None


def _change(then: float | None, there: float | None) -> float | None:
    return there / then - 1 if then and there is not None else None


def _means(name: str, change: float | None) -> str | None:
    """Return ``better`` or ``worse`` where a change is one that matters to the gate."""
    of = known_figure(name)
    if of is None or change is None:
        return None
    least = EXACT_TOLERANCE if of.exact else Rule().smallest_effect
    if abs(change) < least:
        return None
    return "better" if (change > 0) is of.higher_is_better else "worse"


def _table(figures: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    from pytest_llmperf.campaign.message import number, percent

    def value(of: float | None) -> str:
        return "none" if of is None else number(of)

    def share(of: float | None) -> str:
        return "" if of is None else percent(of)

    rows = [
        (
            name,
            value(found["from"]),
            value(found["to"]),
            found["unit"],
            share(found["change"]),
            found["means"] or "",
            share(found["from_anchor"]),
        )
        for name, found in figures.items()
    ]
    head = ("mean of nights", "before", "after", "", "change", "", "from anchor")
    yield from table(head, rows, right="1246") if rows else ()
