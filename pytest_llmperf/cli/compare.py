"""``pytest-llmperf compare A B``: two runs, figure by figure."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from pytest_llmperf.cli._run_index import add_folder, find_run, folder_of
from pytest_llmperf.errors import UsageError

if TYPE_CHECKING:
    from pytest_llmperf.cli._compare_runs import Comparison

EPILOG = """\
A and B: ids of runs, beginnings of ids, latest, previous, or folders of runs. Exit status 0:
compared, whatever came out. With --fail-on-regression 1: a gated figure REGRESSED. 2: cannot be
done; with --fail-on-regression also where nothing gated could be compared."""


def register(calls: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the call."""
    parser = calls.add_parser(
        "compare",
        help="two runs figure by figure, with what else differs between them",
        description="Compare run B with run A, the earlier one: what each server gave on each "
        "traffic that both have, on the same machine. It is a comparison of two nights; a "
        "verdict against accepted nights, or launches in turn, can tell smaller changes.",
        epilog=EPILOG,
    )
    parser.add_argument("a", metavar="A", help="the earlier run")
    parser.add_argument("b", metavar="B", help="the later run")
    add_folder(parser)
    parser.add_argument("--all", action="store_true", help="every figure, not the chief ones only")
    parser.add_argument("--json", action="store_true", help="print JSON, with every figure")
    parser.add_argument(
        "--fail-on-regression", action="store_true", help="exit status 1 where one is found"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the comparison; return the exit status that the epilog tells."""
    from pytest_llmperf.cli._compare_runs import compare
    from pytest_llmperf.cli._compare_shown import lines, plain

    root = folder_of(options.runs)
    a, b = find_run(options.a, root), find_run(options.b, root)
    if a.path.resolve() == b.path.resolve():
        raise UsageError(f"{options.a} and {options.b} are the same run, {a.path}")
    found = compare(a, b)
    if options.json:
        print(json.dumps(plain(found), indent=2, ensure_ascii=False))
    else:
        for line in lines(found, everything=options.all):
            print(line)
    return _status(found) if options.fail_on_regression else 0


def _status(found: Comparison) -> int:
    regressed = [
        f"{pair.b.server}/{pair.b.traffic} {name}"
        for pair in found.compared
        for name in pair.regressed
    ]
    if regressed:
        print(f"pytest-llmperf compare: REGRESSED: {', '.join(regressed)}", file=sys.stderr)
        return 1
    if not any(row.status for pair in found.compared for row in pair.rows):
        raise UsageError("--fail-on-regression: no gated figure could be compared")
    return 0
