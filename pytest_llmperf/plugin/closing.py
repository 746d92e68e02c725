"""The end of a session: the run's folder is finished, the report written, nothing hidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.model.verdict import Status
from pytest_llmperf.plugin import options
from pytest_llmperf.plugin.ledger import NEVER_ACCEPTED, NOT_ACCEPTED
from pytest_llmperf.report import write_report
from pytest_llmperf.store.runs import Run, RunFolder, load_run

if TYPE_CHECKING:
    from pytest_llmperf.plugin.session import Session

REFUSED = tuple(f": {status.value}" for status in NEVER_ACCEPTED)
"""How the note ends that a verdict keeps a cell out of its baseline."""


class Closing:
    """The last steps, each on its own: one that fails is told, and the others are done."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self.troubles: list[str] = []
        self.report: Path | None = None

    def step(self, what: str, do: Callable[[], None]) -> None:
        """Do a step; a failure is kept for the summary and fails the session."""
        try:
            do()
        except Exception as error:  # noqa: BLE001 - the verdicts must be shown all the same
            self.trouble(f"{what}: {error}")

    def trouble(self, text: str) -> None:
        """Keep what went wrong; a green session turns red."""
        self.troubles.append(text)
        if self._session.exitstatus == pytest.ExitCode.OK:
            self._session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def close(self, llmperf: Session, exitstatus: int) -> None:
        """Finish the run folder, write the report, refuse a GPU session that judged nothing."""
        run = options.run_path(self._session.config)
        if run is None:
            options.refuse_empty(self._session)
            return
        self.step("the run could not be finished", lambda: self._finish(run, exitstatus, llmperf))
        self.step("the run cannot be read", lambda: self._look_at(load_run(run)))
        self.step("the report was not written", lambda: self._write(run, llmperf.report_folder))

    def _finish(self, run: Path, exitstatus: int, llmperf: Session) -> None:
        outcome = "passed" if exitstatus == pytest.ExitCode.OK else f"exit status {exitstatus:d}"
        if llmperf.interrupted or exitstatus == pytest.ExitCode.INTERRUPTED:
            outcome = "interrupted"
        RunFolder.create(run.parent, run.name).finish(outcome)

    def _look_at(self, run: Run) -> None:
        if not _judged(run):
            options.refuse_empty(self._session)
        for note in run.notes:
            if not note.startswith(NOT_ACCEPTED):
                continue
            if note.endswith(REFUSED):  # its test has failed, or is expected to
                self.troubles.append(note)
            else:
                self.trouble(note)

    def _write(self, run: Path, folder: Path) -> None:
        self.report = write_report(run, folder)


def _judged(run: Run) -> bool:
    """Whether a night was accepted, or any verdict says more than that nothing is stored."""
    return bool(run.accepted) or any(
        finding.status is not Status.NO_BASELINE
        for entry in run.verdicts
        for finding in entry.verdict.findings
    )
