"""Progress while it measures, and the summary at the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.errors import LlmPerfError
from pytest_llmperf.gate.ratio_nights import TIMES
from pytest_llmperf.model.verdict import Status, Verdict
from pytest_llmperf.plugin.ledger import NOT_ACCEPTED
from pytest_llmperf.store.runs import load_run

if TYPE_CHECKING:
    from pytest_llmperf.plugin.closing import Closing

SKIPPED = (Status.NO_BASELINE, Status.INCONCLUSIVE)
"""Their tests are skipped, and pytest shows a skip's reason only with -rs."""
MARKUP = {
    Status.PASSED: {"green": True},
    Status.IMPROVED: {"green": True, "bold": True},
    Status.NO_BASELINE: {"yellow": True},
    Status.INCONCLUSIVE: {"yellow": True},
}
GOOD = (Status.PASSED, Status.IMPROVED)
"""Their message is shown by nobody else."""
QUOTED = ("total_tps", "output_tps")
"""What a comparison is quoted by: the first of them that it has a ratio of."""


class Terminal:
    """Writes to pytest's terminal, quietly under CI."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._quiet = bool(os.environ.get("CI")) or config.get_verbosity() < 0

    def progress(self, text: str) -> None:
        """Say one of many lines, past pytest's capturing; not under CI, nor with -q."""
        if not self._quiet:
            self._say(text)

    def announce(self, text: str) -> None:
        """Say what belongs into a log under CI too; not with -q."""
        if self._config.get_verbosity() >= 0:
            self._say(text)

    def _say(self, text: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            return
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        if capture is None:
            reporter.write_line(f"llmperf: {text}")
            return
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(f"llmperf: {text}")


def summary(reporter: pytest.TerminalReporter, run: Path | None, closing: Closing) -> None:
    """Show every verdict of the run, from its artifacts, and where to look."""
    if run is None:
        return
    reporter.section("llmperf", sep="=")
    try:
        _show(reporter, run)
    except LlmPerfError as error:
        reporter.write_line(f"the run cannot be shown: {error}", red=True)
    for trouble in closing.troubles:
        reporter.write_line(trouble, red=True)
    reporter.write_line(f"run: {run}")
    if closing.report is not None:
        reporter.write_line(f"report: {closing.report}")


def main_ratio(verdict: Verdict) -> str | None:
    """Return ``total_tps 1.23 × base``: a comparison's throughput ratio, if it has one."""
    for figure in QUOTED:
        for finding in verdict.findings:
            if (finding.figure, finding.kind) != (figure, "ratio") or finding.value is None:
                continue
            if finding.unit == TIMES:  # judged beside the ratios of accepted nights
                return f"{figure} {finding.value:.3g} {TIMES} {verdict.against}"
            if finding.reference:
                return f"{figure} {finding.value / finding.reference:.3g} {TIMES} {verdict.against}"
    return None


def _of_answers(caveat: str) -> bool:
    """Whether a caveat tells of other answers: what passes and answers otherwise is to be read."""
    return caveat.startswith("answers: ")


def _show(reporter: pytest.TerminalReporter, run: Path) -> None:
    loaded = load_run(run)
    for entry in loaded.verdicts:
        status = entry.verdict.status
        lines = entry.message.split("\n")
        reporter.write_line(lines[0], **MARKUP.get(status, {"red": True}))
        if status in SKIPPED:
            reporter.write_line(lines[1])
        if status is Status.PASSED and (ratio := main_ratio(entry.verdict)):
            reporter.write_line(f"  {ratio}")
        if status in GOOD:
            for caveat in filter(_of_answers, entry.verdict.caveats):
                reporter.write_line(f"  note: {caveat}", yellow=True)
        if status is Status.IMPROVED:
            reporter.write_line("  better beyond noise: accept it with --llmperf-accept")
    for note in loaded.notes:
        if not note.startswith(NOT_ACCEPTED):  # told as a trouble
            reporter.write_line(f"note: {note}", yellow=True)
    for line in loaded.accepted:
        reporter.write_line(f"accepted as a night of the baseline: {line}")
