"""The runs that are on this disk: which there are, and which one a word on a command line means.

Every call that asks for past runs asks here, so that another place to keep them needs no other
change.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pytest_llmperf.cli._folders import nearest
from pytest_llmperf.cli._text import listed
from pytest_llmperf.errors import UsageError
from pytest_llmperf.model.verdict import Status

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from pytest_llmperf.store.runs import Run

FOLDER = Path(".llmperf", "runs")
HEADER = "header.json"
NEWEST = ("latest", "previous")
"""Words for the newest run and the one before it."""

State = Literal["finished", "unfinished", "damaged"]


@dataclass(frozen=True)
class Summary:
    """A run in a line.

    ``state``: ``unfinished`` is one that is going on, or ended without saying so. ``statuses``:
    status → how many verdicts have it, in order of precedence. ``trouble``: what is damaged.
    """

    path: Path
    started_at: str
    state: State
    outcome: str = ""
    statuses: Mapping[str, int] | None = None
    servers: tuple[str, ...] = ()
    traffics: tuple[str, ...] = ()
    machine: str = ""
    simulated: bool = False
    trouble: str = ""

    @property
    def id(self) -> str:
        """The run's id, which is its folder's name."""
        return self.path.name


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add ``--runs``."""
    parser.add_argument(
        "--runs",
        type=Path,
        metavar="DIR",
        help=f"folder of the runs (default: {FOLDER} here, or in the nearest folder above)",
    )


def folder_of(given: Path | None) -> Path:
    """Return the folder of the runs: the one given, or the nearest upwards from here.

    Raise UsageError where one is given that is not there.
    """
    if given is not None:
        if not given.is_dir():
            raise UsageError(f"--runs {given}: there is no such folder")
        return given
    return nearest(FOLDER) or Path.cwd() / FOLDER


def summaries(root: Path) -> Iterator[Summary]:
    """Yield the runs under ``root``, newest first; those without a header at the end."""
    from pytest_llmperf.store.runs import list_runs

    with_header = list_runs(root)
    for folder in with_header:
        yield summary_of(folder)
    others = sorted(folder for folder in root.glob("*") if folder.is_dir())
    for folder in others:
        if folder not in with_header:
            yield _damaged(folder, f"it has no {HEADER}")


def summary_of(folder: Path) -> Summary:
    """Return a run in a line, damaged or not."""
    from pytest_llmperf.store.runs import load_run

    try:
        run = load_run(folder)
        datetime.fromisoformat(run.header.started_at)
    except Exception as error:  # noqa: BLE001 - whatever one holds, the others are listed
        return _damaged(folder, str(error) or type(error).__name__)
    statuses = Counter(stored.verdict.status for stored in run.verdicts)
    return Summary(
        path=folder,
        started_at=run.header.started_at,
        state="finished" if run.status == "finished" else "unfinished",
        outcome=run.outcome or "",
        statuses={status.value: statuses[status] for status in Status if statuses[status]},
        servers=tuple(sorted({launch.server for launch in run.launches})),
        traffics=tuple(sorted({traffic.spec.name for traffic in run.traffics})),
        machine=run.header.machine.key,
        simulated=run.header.simulated,
    )


def _damaged(folder: Path, trouble: str) -> Summary:
    when = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
    return Summary(folder, when.isoformat(timespec="seconds"), "damaged", trouble=trouble)


def find_run(word: str, root: Path) -> Run:
    """Return the run that ``word`` means.

    ``latest`` and ``previous`` are the newest two; otherwise a run's folder, an id under
    ``root`` or the beginning of a single one. Raise UsageError where that is none or several,
    StoreError for a run that cannot be read.
    """
    from pytest_llmperf.store.runs import list_runs, load_run

    if (Path(word) / HEADER).is_file():
        return load_run(Path(word).resolve())
    runs = list_runs(root)
    if word in NEWEST:
        place = NEWEST.index(word)
        if place >= len(runs):
            raise UsageError(f"{word}: {root} has {len(runs)} of the {place + 1} runs needed")
        return load_run(runs[place])
    found = [run for run in runs if run.name == word] or [
        run for run in runs if run.name.startswith(word)
    ]
    if len(found) == 1:
        return load_run(found[0])
    if found:
        raise UsageError(f"{word} could be any of {len(found)} runs: {_names(found)}; give more")
    known = f"Newest there: {_names(runs)}" if runs else "There is none there"
    raise UsageError(
        f"no run is called {word!r} under {root}, and no folder of a run lies at that path. "
        f"{known}; pytest-llmperf runs lists them"
    )


def _names(runs: list[Path]) -> str:
    return listed([run.name for run in runs])
