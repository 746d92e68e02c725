"""``pytest-llmperf runs``: the runs on this disk, newest first."""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from pytest_llmperf.cli._run_index import add_folder, folder_of, summaries
from pytest_llmperf.cli._text import listed, table
from pytest_llmperf.model.verdict import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_llmperf.cli._run_index import Summary

LIMIT = 20
UNITS = {"d": "days", "h": "hours"}


def register(calls: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the call."""
    parser = calls.add_parser(
        "runs",
        help="the runs on this disk: when, how they ended, their verdicts",
        description="List runs, newest first. A run that is damaged, or that ended without "
        "saying so, is listed as such.",
    )
    add_folder(parser)
    parser.add_argument("--server", metavar="NAME", help="only runs that launched this server")
    parser.add_argument("--traffic", metavar="NAME", help="only runs that had this traffic")
    parser.add_argument(
        "--status",
        type=str.upper,
        choices=[status.value for status in Status],
        metavar="STATUS",
        help=f"only runs with such a verdict: {', '.join(status.value for status in Status)}",
    )
    parser.add_argument(
        "--since", type=moment, metavar="WHEN", help="a date (2026-11-30), or 7d, or 12h"
    )
    parser.add_argument(
        "--limit", type=int, default=LIMIT, metavar="N", help=f"at most N (default {LIMIT}; 0: all)"
    )
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the runs that were asked for."""
    root = folder_of(options.runs)
    wanted = (summary for summary in summaries(root) if _wanted(summary, options))
    most = options.limit if options.limit > 0 else None
    found = list(islice(wanted, most))
    more = most is not None and next(wanted, None) is not None
    if options.format == "json":
        print(json.dumps([_plain(summary) for summary in found], indent=2, ensure_ascii=False))
    elif options.format == "csv":
        _write_csv(found)
    else:
        for line in _lines(found):
            print(line)
        if not found:
            print(f"no such run under {root}")
    if more:
        print(f"older runs are left out: --limit {most}", file=sys.stderr)
    return 0


def moment(text: str) -> datetime:
    """Read a date or an instant (of this host's time zone where it names none), or an age."""
    try:
        if age := re.fullmatch(r"(\d+)([dh])", text):
            return datetime.now().astimezone() - timedelta(**{UNITS[age[2]]: int(age[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no date such as 2026-11-30, and no age such as 7d or 12h"
        ) from None


def _wanted(summary: Summary, options: argparse.Namespace) -> bool:
    return (
        (options.server is None or options.server in summary.servers)
        and (options.traffic is None or options.traffic in summary.traffics)
        and (options.status is None or options.status in (summary.statuses or {}))
        and (options.since is None or _started(summary) >= options.since)
    )


def _started(summary: Summary) -> datetime:
    return datetime.fromisoformat(summary.started_at).astimezone()


def _lines(found: list[Summary]) -> Iterator[str]:
    rows = [
        (
            summary.id,
            f"{_started(summary):%Y-%m-%d %H:%M}",
            summary.outcome or summary.state,
            _told(summary),
            listed(summary.servers),
            summary.machine,
            "SIMULATED" if summary.simulated else "",
        )
        for summary in found
    ]
    if rows:
        yield from table(("run", "started", "outcome", "verdicts", "servers", "machine", ""), rows)
    for summary in found:
        if summary.state == "damaged":
            yield f"{summary.id} is damaged: {summary.trouble}"


def _told(summary: Summary) -> str:
    return ", ".join(f"{count} {status}" for status, count in (summary.statuses or {}).items())


def _plain(summary: Summary) -> dict[str, Any]:
    return {
        "id": summary.id,
        **asdict(summary),
        "path": str(summary.path),
        "statuses": dict(summary.statuses or {}),
    }


def _write_csv(found: list[Summary]) -> None:
    """Write one line a run, with one column a status."""
    statuses = [status.value for status in Status]
    several = ("servers", "traffics")
    plain = ("id", "started_at", "state", "outcome", "machine", "simulated", "path", "trouble")
    writer = csv.DictWriter(sys.stdout, (*plain, *several, *statuses), lineterminator="\n")
    writer.writeheader()
    for summary in found:
        row = _plain(summary)
        counts = row.pop("statuses")
        words = {name: " ".join(row[name]) for name in several}
        writer.writerow({**row, **words, **{name: counts.get(name, 0) for name in statuses}})
