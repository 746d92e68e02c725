"""How many nights in a row a test's verdict has been the same, from the runs' artifacts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_llmperf.errors import StoreError
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.verdict import Status, Verdict
from pytest_llmperf.store._json import read_json
from pytest_llmperf.store.runs import list_runs, verdict_file


@dataclass(frozen=True, slots=True)
class _Conditions:
    """When and where a run measured, and which requests a traffic came to.

    There are several ``digests`` of one traffic where servers count tokens differently.
    """

    date: str
    machine: str
    simulated: bool
    digests: frozenset[str]

    def comparable(self, other: _Conditions) -> bool:
        """Whether both runs' results can be of the same test."""
        same = (self.machine, self.simulated) == (other.machine, other.simulated)
        return same and (self.digests == other.digests or bool(self.digests & other.digests))


def nights_in_a_row(verdict: Verdict, run: Path) -> int:
    """Return how many nights up to and with ``run``'s end in this verdict's status.

    Nights are dates; of several runs on one date the newest counts. Of the runs beside ``run``
    those count that judged this test, on the same machine and with the same requests of its
    traffic: a rehearsal or a cut traffic says nothing of it. What cannot be read is passed over.
    """
    dates: dict[str, Status] = {}
    here = _conditions(run, verdict.traffic)
    for folder in [run, *(other for other in list_runs(run.parent) if other != run)]:
        there = here if folder == run else _conditions(folder, verdict.traffic)
        if here is None or there is None or not there.comparable(here):
            continue
        status = verdict.status if folder == run else _status(verdict_file(folder, verdict))
        if status is not None:
            dates.setdefault(there.date, status)
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


def _conditions(run: Path, traffic: str) -> _Conditions | None:
    try:
        header = read_json(run / "header.json")
        date, machine = str(header["started_at"])[:10], Machine.of(header["machine"]).key
    except (StoreError, OSError, KeyError, TypeError, AttributeError):
        return None
    # The digest has no dash, so that "chat-long-…" is no digest of "chat".
    names = [file.stem.rpartition("-") for file in (run / "traffics").glob("*.json")]
    digests = frozenset(digest for name, _, digest in names if name == traffic)
    return _Conditions(date, machine, bool(header.get("simulated")), digests)
