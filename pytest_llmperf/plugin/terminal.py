"""Progress while it measures, and the summary at the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_llmperf.model.verdict import Status
from pytest_llmperf.store.runs import load_run

MARKUP = {
    Status.PASSED: {"green": True},
    Status.IMPROVED: {"green": True, "bold": True},
    Status.NO_BASELINE: {"yellow": True},
    Status.INCONCLUSIVE: {"yellow": True},
}


class Terminal:
    """Writes to pytest's terminal, quietly under CI."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._quiet = bool(os.environ.get("CI")) or config.get_verbosity() < 0
        self.accepted: list[str] = []

    def progress(self, text: str) -> None:
        """Say one line, past pytest's capturing."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if self._quiet or reporter is None:
            return
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        if capture is None:
            reporter.write_line(f"llmperf: {text}")
            return
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(f"llmperf: {text}")

    def summary(
        self, reporter: pytest.TerminalReporter, run: Path | None, report: Path | None
    ) -> None:
        """Show every verdict of the run, from its artifacts, and where to look."""
        if run is None:
            return
        reporter.section("llmperf", sep="=")
        loaded = load_run(run)
        for entry in loaded.verdicts:
            status = entry.verdict.status
            lines = entry.message.splitlines()
            reporter.write_line(lines[0], **MARKUP.get(status, {"red": True}))
            if status is Status.IMPROVED:
                reporter.write_line("  better beyond noise: accept it with --llmperf-accept")
        for note in loaded.notes:
            reporter.write_line(f"missing: {note}", yellow=True)
        for line in self.accepted:
            reporter.write_line(f"accepted as a night of the baseline: {line}")
        reporter.write_line(f"run: {run}")
        if report is not None:
            reporter.write_line(f"report: {report}")
