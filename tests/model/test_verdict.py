"""Status and its precedence."""

from pytest_llmperf.model.verdict import Finding, Status, Verdict


def test_the_first_status_that_applies_is_the_verdicts():
    """DESIGN.md's table, in its order."""
    order = [
        "INVALID",
        "SLO_VIOLATED",
        "REGRESSED",
        "INCONCLUSIVE",
        "NO_BASELINE",
        "IMPROVED",
        "PASSED",
    ]
    assert [status.value for status in Status] == order
    for position, status in enumerate(Status):
        findings = tuple(Finding("f", s, "") for s in list(Status)[position:])
        assert Verdict("t", "s", "c", findings).status is status


def test_a_verdict_without_findings_has_nothing_against_it():
    """A limit-only check whose limits hold has findings; this is the empty case."""
    assert Verdict("t", "s", "c", ()).status is Status.PASSED
