"""``pytest-llmperf baseline``: show what was accepted, and what a change to it means."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmperf.cli._baseline_files import (
    FOLDER,
    Held,
    commit_of,
    files_at,
    folder_of,
    only,
    select,
    text_at,
)
from pytest_llmperf.cli._text import counted
from pytest_llmperf.errors import BaselineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_llmperf.model.baseline import Baseline

WHICH = "MACHINE/SERVER/TRAFFIC, from the left, names or patterns ('*/qwen3-14b'); or a file"
NIGHTS = 5


def register(calls: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the call."""
    parser = calls.add_parser(
        "baseline",
        help="what was accepted: show it, or what changed in it",
        description="Read the baselines that results are judged against.",
    )
    parts = parser.add_subparsers(dest="part", metavar="show|diff", required=True)
    show = parts.add_parser(
        "show",
        help="which baselines there are; of a single one its nights and figures",
        description="List the baselines; where one is named, show its nights × figures with "
        "their noise, and what was run. Exit status 1: a file could not be read.",
    )
    show.add_argument("which", nargs="*", metavar="WHICH", help=WHICH)
    show.add_argument(
        "--nights", type=_count, default=NIGHTS, metavar="N",
        help=f"figures of the last N nights (default {NIGHTS})",
    )  # fmt: skip
    show.set_defaults(run=run_show)
    diff = parts.add_parser(
        "diff",
        help="what differs between two baselines, or since a git revision",
        description="Compare two baselines, or with --git the files as they are with what a "
        "revision had (all of them, or those named): nights, figures, what was run. "
        "Exit status 1: a file could not be read.",
    )
    diff.add_argument("which", nargs="*", metavar="WHICH", help=WHICH)
    diff.add_argument("--git", metavar="REV", help="compare with this revision: main, HEAD~1")
    diff.set_defaults(run=run_diff)
    for one in (show, diff):
        one.add_argument(
            "--figure", action="append", default=[], metavar="NAME",
            help="a figure to show (repeatable; default: those that are judged)",
        )  # fmt: skip
        one.add_argument("--all", action="store_true", help="every figure that is stored")
        one.add_argument("--json", action="store_true", help="print JSON, with every figure")
        one.add_argument(
            "--baselines", type=Path, metavar="DIR",
            help=f"folder of the baselines (default: {FOLDER} here, or in the nearest folder above)",
        )  # fmt: skip


def run_show(options: argparse.Namespace) -> int:
    """Print a table of baselines, or one of them; return 1 where a file could not be read."""
    from pytest_llmperf.cli._baseline_show import as_json, details, overview, shown_figures
    from pytest_llmperf.store.baselines import read_baseline

    root = folder_of(options.baselines)
    paths = select(root, options.which)
    found: list[tuple[Path, Baseline]] = []
    damaged = 0
    for path in paths:
        try:
            found.append((path, read_baseline(path)))
        except BaselineError as error:
            damaged += 1
            print(f"pytest-llmperf baseline: {error}", file=sys.stderr)
    if options.json:
        _print_json([as_json(*one) for one in found])
    elif len(paths) == 1 == len(found) and options.which:
        path, baseline = found[0]
        names = shown_figures([baseline], options.figure, every=options.all)
        _print(details(Held(str(path), baseline), names, options.nights))
    else:
        _print(overview(found))
        if not paths:
            print(f"no baseline lies under {root}; accept a night with --llmperf-accept")
    return 1 if damaged else 0


def run_diff(options: argparse.Namespace) -> int:
    """Print what differs; return 1 where a file could not be read."""
    from pytest_llmperf.store.baselines import read_baseline

    root = folder_of(options.baselines)
    if options.git is not None:
        return _since(root, options)
    if len(options.which) != 2:  # noqa: PLR2004 - one before, one after
        raise UsageError(
            f"diff takes two baselines, not {len(options.which)}; or --git REV, and any number"
        )
    before, after = (
        Held(str(path), read_baseline(path)) for path in (only(root, w) for w in options.which)
    )
    _tell([(before, after)], options)
    return 0


def _since(root: Path, options: argparse.Namespace) -> int:
    """Compare files with what a revision had; each that cannot be read is told, and passed over."""
    commit = commit_of(root, options.git)
    named = bool(options.which)
    now = select(root, options.which)
    gone = [] if named else [file for file in files_at(root, commit) if not file.exists()]
    changed: list[tuple[Held, Held]] = []
    alone: list[dict[str, Any]] = []
    damaged = same = 0
    for path in [*now, *gone]:
        try:
            before, after = _then_and_now(path, commit, options.git)
        except BaselineError as error:
            damaged += 1
            print(f"pytest-llmperf baseline: {error}", file=sys.stderr)
            continue
        if before and after:
            if before.baseline == after.baseline:
                same += 1
            else:
                changed.append((before, after))
        elif held := after or before:
            alone.append(_alone(path, held, options.git, new=held is after))
    _tell(changed, options, alone)
    if not options.json:
        print(f"as it was at {options.git}: {same} of {counted(len(now), 'file')}")
    return 1 if damaged else 0


def _then_and_now(path: Path, commit: str, revision: str) -> tuple[Held | None, Held | None]:
    from pytest_llmperf.store.baselines import parse_baseline, read_baseline

    text = text_at(path, commit)
    try:
        then = None if text is None else parse_baseline(text, path)
    except BaselineError as error:
        raise BaselineError(f"as it was at {revision}: {error}") from None
    before = None if then is None else Held(f"{revision}:{path}", then)
    after = Held(str(path), read_baseline(path)) if path.exists() else None
    return before, after


def _alone(path: Path, held: Held, revision: str, *, new: bool) -> dict[str, Any]:
    from pytest_llmperf.cli._baseline_show import as_json

    said = f"is new since {revision}" if new else f"was there at {revision} and is gone"
    return {"said": f"{path} {said}", "new": new, "baseline": as_json(path, held.baseline)}


def _tell(
    changed: Sequence[tuple[Held, Held]],
    options: argparse.Namespace,
    alone: Sequence[dict[str, Any]] = (),
) -> None:
    from pytest_llmperf.cli._baseline_diff import difference, lines
    from pytest_llmperf.cli._baseline_show import shown_figures

    every = options.all or options.json
    found = []
    for before, after in changed:
        names = shown_figures([before.baseline, after.baseline], options.figure, every=every)
        found.append(difference(before, after, names))
    if options.json:
        _print_json({"changed": found, "alone": list(alone)})
        return
    for one in found:
        _print(lines(one))
    for one in alone:
        nights = one["baseline"]["nights"]
        dates = f", {nights[0]['date']} to {nights[-1]['date']}" if nights else ""
        print(f"{one['said']}: nights {len(nights)}{dates}")


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line.rstrip())


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)
