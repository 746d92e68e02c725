"""Reading a run folder back, finished or not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_llmperf.errors import StoreError
from pytest_llmperf.model.answers import Answer, Answers
from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.record import ClientHealth, Replay
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import PAIRS, TrafficSpec
from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.store._json import build, number, numbers, read_json
from pytest_llmperf.store._recipe import pairs_of
from pytest_llmperf.store._requests import requests_from_parquet
from pytest_llmperf.store._run import (
    Launch,
    NightMean,
    Run,
    RunHeader,
    StoredReplay,
    StoredTraffic,
    StoredVerdict,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_llmperf.model.baseline import Values

_REPLAY = re.compile(r".+-\d+\.json")
_LAUNCH = re.compile(r"launch-(\d+)")
OWN_LAUNCHES = "llm_server"
"""The campaign that launches belong to which a test has to itself: nothing is replayed there."""


def load_run(path: Path) -> Run:
    """Read the run in the folder ``path``.

    A run that is going on, or ended half-way, is read as far as it got. Raises StoreError
    where ``path`` is no run folder or a file in it is damaged.
    """
    if not (path / "header.json").is_file():
        raise StoreError(
            f"{path} is not the folder of a run: it has no header.json. "
            "Runs lie in .llmperf/runs/<id>"
        )
    header = _header(path / "header.json")
    summary = read_json(path / "run.json") if (path / "run.json").is_file() else {}
    finished = summary.get("status") == "finished"
    launches = tuple(map(_launch, _launch_folders(path)))
    verdicts = tuple(_verdict(file) for file in sorted((path / "verdicts").glob("*.json")))
    return Run(
        path=path,
        header=header,
        status="finished" if finished else "running",
        outcome=summary.get("outcome"),
        traffics=tuple(_traffic(file) for file in sorted((path / "traffics").glob("*.json"))),
        launches=launches,
        verdicts=verdicts,
        notes=tuple(str(entry.get("text", "")) for entry in _entries(path / "notes")),
        accepted=tuple(
            f"{entry.get('server')}/{entry.get('traffic')} → {entry.get('path')}"
            for entry in _entries(path / "accepted")
        ),
        missing=tuple(_missing(launches, verdicts)),
    )


def read_replay(path: Path) -> Replay:
    """Read the replay whose JSON is ``path`` with all its requests.

    It equals the Replay that was written. Raises StoreError where a file is damaged.
    """
    data = read_json(path)
    return build(
        Replay,
        data,
        path,
        records=requests_from_parquet(path.with_suffix(".parquet")),
        offered_rate=number(data.get("offered_rate")),
        health=build(ClientHealth, data.get("health"), path),
        counters=_counters(data, path),
    )


def list_runs(root: Path) -> list[Path]:
    """Return the folders of the runs under ``root`` (``.llmperf/runs``), newest first."""
    return sorted(
        (header.parent for header in root.glob("*/header.json")), key=_started, reverse=True
    )


def _entries(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what was written one file each, in the order in which it was."""
    for file in sorted(folder.glob("*.json")):
        yield read_json(file)


def _started(folder: Path) -> tuple[datetime, str]:
    file = folder / "header.json"
    try:
        started = datetime.fromisoformat(str(read_json(file).get("started_at")))
    except (StoreError, ValueError):  # a damaged run is listed all the same
        started = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    return started.astimezone(UTC), folder.name


def _header(path: Path) -> RunHeader:
    data = read_json(path)
    return build(RunHeader, data, path, machine=build(Machine, data.get("machine"), path))


def _traffic(path: Path) -> StoredTraffic:
    data = read_json(path)
    recipe = data.get("recipe")
    spec = build(TrafficSpec, recipe, path, **_spec_values(recipe, path))
    return build(
        StoredTraffic,
        data,
        path,
        spec=spec,
        offered_rate=number(data.get("offered_rate")),
        **{key: tuple(data.get(key, ())) for key in ("notes", "prompt_tokens", "output_tokens")},
    )


def _spec_values(recipe: Any, path: Path) -> dict[str, Any]:
    """Return what JSON turned into lists and strings as TrafficSpec has it."""
    if not isinstance(recipe, Mapping):
        raise StoreError(f"{path} is damaged: it holds no recipe")
    try:
        options = {name: pairs_of(recipe.get(name, ())) for name in PAIRS}
        rate = float(recipe.get("request_rate", "inf"))
        return {**options, "stop": tuple(recipe.get("stop", ())), "request_rate": rate}
    except (TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error


def _launch_folders(run: Path) -> list[Path]:
    folders = [f for f in run.glob("campaigns/*/*/launch-*") if _LAUNCH.fullmatch(f.name)]
    return sorted(folders, key=lambda f: (f.parts[-3], f.parts[-2], _launch_number(f)))


def _launch_number(folder: Path) -> int:
    return int(folder.name.removeprefix("launch-"))


def _launch(folder: Path) -> Launch:
    campaign, server = folder.parts[-3:-1]
    file, log = folder / "launch.json", folder / "server.log"
    data = read_json(file) if file.is_file() else {}
    spec = facts = None
    if data:
        written = data.get("server") or {}
        spec = build(
            ServerSpec,
            written,
            file,
            arguments=tuple(written.get("arguments", ())),
            environment=tuple(tuple(pair) for pair in written.get("environment", ())),
        )
        facts = build(LaunchFacts, data.get("facts"), file)
    replays = [_stored_replay(f) for f in folder.glob("*.json") if _REPLAY.fullmatch(f.name)]
    return Launch(
        path=folder,
        campaign=campaign,
        server=server,
        number=_launch_number(folder),
        spec=spec,
        facts=facts,
        executable=data.get("executable"),
        log=log if log.is_file() else None,
        replays=tuple(sorted(replays, key=lambda r: (r.traffic, r.number))),
        answers=dict(map(_answers, sorted(folder.glob("*.answers.json")))),
    )


def _answers(path: Path) -> tuple[str, Answers]:
    data = read_json(path)
    try:
        answers = tuple(
            build(Answer, one, path, token_ids=_token_ids(one)) for one in data.get("answers", ())
        )
    except (AttributeError, TypeError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error
    return str(data.get("traffic")), build(Answers, data, path, answers=answers)


def _token_ids(answer: Mapping[str, Any]) -> tuple[int, ...] | None:
    ids = answer.get("token_ids")
    return None if ids is None else tuple(ids)


def _stored_replay(path: Path) -> StoredReplay:
    data = read_json(path)
    texts = {
        f"metrics_{when}": file if file.is_file() else None
        for when in ("before", "after")
        for file in [path.with_name(f"{path.stem}.metrics-{when}.txt")]
    }
    return build(
        StoredReplay,
        data,
        path,
        path=path,
        figures=numbers(data.get("figures"), path),
        offered_rate=number(data.get("offered_rate")),
        health=build(ClientHealth, data.get("health"), path),
        counters=_counters(data, path),
        **texts,
    )


def _counters(data: Mapping[str, Any], path: Path) -> dict[str, float] | None:
    counters = data.get("counters")
    return None if counters is None else numbers(counters, path)


def _verdict(path: Path) -> StoredVerdict:
    data = read_json(path)
    written = data.get("verdict") or {}
    verdict = build(
        Verdict,
        written,
        path,
        findings=tuple(_finding(item, path) for item in written.get("findings", ())),
        caveats=tuple(written.get("caveats", ())),
    )
    nights = {
        figure: tuple(build(NightMean, night, path) for night in means)
        for figure, means in data.get("nights", {}).items()
    }
    try:
        accepted = {
            figure: tuple(_values(night) for night in of)
            for figure, of in data.get("accepted", {}).items()
        }
        inputs = dict(data.get("inputs", {}))
    except (AttributeError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error
    return StoredVerdict(verdict, str(data.get("message", "")), nights, accepted, inputs)


def _values(launches: Any) -> Values:
    return tuple(tuple(map(float, replays)) for replays in launches)


def _finding(data: Any, path: Path) -> Finding:
    try:
        interval = data.get("interval")
        low_high = None if interval is None else (float(interval[0]), float(interval[1]))
        floats = ("value", "reference", "change", "smallest_detectable_change", "tolerance")
        return build(
            Finding,
            data,
            path,
            status=Status(data.get("status")),
            interval=low_high,
            **{key: number(data.get(key)) for key in floats},
        )
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error


def _missing(launches: tuple[Launch, ...], verdicts: tuple[StoredVerdict, ...]) -> Iterator[str]:
    for launch in launches:
        if launch.campaign == OWN_LAUNCHES:
            continue
        name = f"{launch.campaign}: {launch.server}, launch {launch.number}"
        for what in _missing_of(launch):
            yield f"{name} {what}"
    judged = {(stored.verdict.server, stored.verdict.traffic) for stored in verdicts}
    references = {stored.verdict.against for stored in verdicts}
    replayed = {(launch.server, r.traffic) for launch in launches for r in launch.replays}
    for server, traffic in sorted(replayed - judged):
        if judged and server not in references:
            yield f"{server} with {traffic} was replayed and never judged"


def _missing_of(launch: Launch) -> Iterator[str]:
    if launch.facts is None:
        yield "has no facts: the server was never ready"
    elif not launch.replays:
        yield "has no replay"
    if launch.log is None:
        yield "has no server.log"
    for stored in launch.replays:
        if not stored.path.with_suffix(".parquet").is_file():
            yield f"has no requests of {stored.path.stem} ({stored.path.stem}.parquet)"
    for orphan in sorted(launch.path.glob("*.parquet")):
        if not orphan.with_suffix(".json").is_file():
            yield f"has no figures of {orphan.stem}: it ended before they were written"
