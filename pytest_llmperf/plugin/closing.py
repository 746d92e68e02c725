"""The end of a session: the run's folder is finished, the report written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.model.verdict import Status
from pytest_llmperf.plugin import options
from pytest_llmperf.report import write_report
from pytest_llmperf.store.runs import RunFolder, load_run

if TYPE_CHECKING:
    from pytest_llmperf.plugin.session import Session


def close(llmperf: Session, session: pytest.Session, exitstatus: int) -> Path | None:
    """Finish the run folder, write the report, refuse a GPU session that judged nothing."""
    run = options.run_path(session.config)
    if run is None:
        if options.wants_gpu(session.config):
            options.refuse_empty(session)
        return None
    outcome = "passed" if exitstatus == pytest.ExitCode.OK else f"exit status {int(exitstatus)}"
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        outcome = "interrupted"
    RunFolder.create(run.parent, run.name).finish(outcome)
    if options.wants_gpu(session.config) and not _judged(run):
        options.refuse_empty(session)
    return write_report(run, llmperf.report_folder)


def _judged(run: Path) -> bool:
    """Whether any verdict says more than that nothing comparable is stored."""
    verdicts = [entry.verdict for entry in load_run(run).verdicts]
    return any(
        finding.status is not Status.NO_BASELINE
        for verdict in verdicts
        for finding in verdict.findings
    )
