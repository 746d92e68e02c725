"""How many nights in a row a test's verdict has been the same, from the runs' artifacts."""

from __future__ import annotations

from pathlib import Path

from pytest_llmperf.errors import StoreError
from pytest_llmperf.model.verdict import Status, Verdict
from pytest_llmperf.store._json import read_json
from pytest_llmperf.store.runs import list_runs, verdict_file


def nights_in_a_row(verdict: Verdict, run: Path) -> int:
    """Return how many nights up to and with ``run``'s end in this verdict's status.

    Nights are dates; of several runs on one date the newest counts. Runs beside ``run`` that
    did not judge this test, or cannot be read, are passed over.
    """
    dates: dict[str, Status] = {}
    for folder in [run, *(other for other in list_runs(run.parent) if other != run)]:
        status = verdict.status if folder == run else _status(verdict_file(folder, verdict))
        date = _date(folder)
        if status is not None and date is not None:
            dates.setdefault(date, status)
    nights = 0
    for date in sorted(dates, reverse=True):
        if dates[date] is not verdict.status:
            break
        nights += 1
    return nights


def _status(file: Path) -> Status | None:
    try:
        written = read_json(file).get("verdict") or {}
        return Status.worst([Status(found["status"]) for found in written["findings"]])
    except (StoreError, OSError, KeyError, TypeError, ValueError):
        return None


def _date(folder: Path) -> str | None:
    try:
        return str(read_json(folder / "header.json")["started_at"])[:10]
    except (StoreError, OSError, KeyError, TypeError):
        return None
