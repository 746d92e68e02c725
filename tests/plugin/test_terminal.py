"""The summary quotes what a comparison found."""

from __future__ import annotations

import pytest

from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.plugin.terminal import main_ratio


def ratio(figure, value, reference, unit="tok/s"):
    """Return a ratio's finding."""
    return Finding(
        figure, Status.PASSED, "", kind="ratio", value=value, reference=reference, unit=unit
    )


@pytest.mark.parametrize(
    ("findings", "line"),
    [
        ([ratio("output_tps", 300.0, 200.0)], "output_tps 1.5 \N{MULTIPLICATION SIGN} base"),
        (
            # Beside accepted nights the value is the ratio itself, 1.25 tonight and 1.2 then.
            [ratio("output_tps", 1.25, 1.2, "\N{MULTIPLICATION SIGN}")],
            "output_tps 1.25 \N{MULTIPLICATION SIGN} base",
        ),
        (
            [ratio("output_tps", 300.0, 200.0), ratio("total_tps", 500.0, 400.0)],
            "total_tps 1.25 \N{MULTIPLICATION SIGN} base",
        ),
        ([ratio("itl.mean", 9.0, 10.0, "ms")], None),
        ([Finding("output_tps", Status.PASSED, "", value=300.0, reference=200.0)], None),
    ],
)
def test_the_throughputs_ratio_is_quoted(findings, line):
    """Total before output, as a factor of the reference; no figure's change since a night is."""
    verdict = Verdict("t", "other", "burst", tuple(findings), against="base")
    assert main_ratio(verdict) == line


def test_other_answers_are_told_though_the_test_passed(suite):
    """Whoever gates an upgrade reads the terminal: PASSED, and that it answers otherwise."""
    suite.write()
    options = ("--llmperf-inconclusive", "pass")
    suite.run("--llmperf-accept", launches=1, replays=1).assert_outcomes(passed=1)
    result = suite.run(*options, "--llmperf-server-args=--sim-fault other", launches=1, replays=1)
    assert "4 of 4 probes answer otherwise" in suite.text(result)
