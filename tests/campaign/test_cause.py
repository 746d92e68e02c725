"""Which part of speculative decoding lost, where any did."""

from __future__ import annotations

import pytest

from pytest_llmperf.campaign.cause import likely_cause
from pytest_llmperf.model.verdict import Finding, Status


def finding(figure, reference, value, status=Status.REGRESSED, **fields):
    """Return a figure that went from ``reference`` to ``value``."""
    change = value / reference - 1
    return Finding(figure, status, "", reference=reference, value=value, change=change, **fields)


ITL = finding("itl.mean", 3.1, 4.3)


def cause(length, step, *others):
    """Return the cause of a slower ITL with those findings beside it."""
    return likely_cause((ITL, *others, length, step))


def test_a_drafter_that_is_accepted_less_is_not_a_slower_engine():
    """2.9 → 2.1 tokens a draft at 9 ms a step."""
    told = cause(
        finding("acceptance_length", 2.9, 2.1), finding("step_time", 9.0, 9.1, Status.PASSED)
    )
    assert told == (
        "the drafter is accepted less (acceptance length 2.9 → 2.1), engine steps take no longer "
        "(9 → 9.1 ms): look at the drafter, not at the engine"
    )


def test_a_slower_engine_is_not_a_drafter_that_is_accepted_less():
    """9 → 12.6 ms a step, 2.9 tokens a draft."""
    told = cause(
        finding("acceptance_length", 2.9, 2.91, Status.PASSED), finding("step_time", 9.0, 12.6)
    )
    assert told == (
        "engine steps take longer (9 → 12.6 ms), drafts are accepted as before (acceptance "
        "length 2.9 → 2.91): look at the engine, not at the drafter"
    )


def test_both_may_have_lost():
    """Neither excuses the other."""
    told = cause(finding("acceptance_length", 2.9, 2.1), finding("step_time", 9.0, 12.6))
    assert told == (
        "two things: the drafter is accepted less (acceptance length 2.9 → 2.1), and engine "
        "steps take longer (9 → 12.6 ms)"
    )


def test_what_the_gate_called_a_loss_outweighs_what_it_did_not():
    """A step 3 % longer is within this host's noise, an acceptance 28 % less is not."""
    step = finding("step_time", 9.0, 9.27, Status.INCONCLUSIVE)
    assert "look at the drafter" in str(cause(finding("acceptance_length", 2.9, 2.1), step))


def test_two_losses_too_small_for_the_gate_are_told_all_the_same():
    """3 % and 4 %, each undecided, together 7 % of the ITL: what there is, is said."""
    told = cause(
        finding("acceptance_length", 3.0, 2.91, Status.INCONCLUSIVE),
        finding("step_time", 10.0, 10.4, Status.INCONCLUSIVE),
    )
    assert str(told).startswith("two things: ")


def test_fewer_drafts_are_neither():
    """ITL +39 % at 9 ms a step and as many accepted a draft: a step brings fewer tokens."""
    told = cause(
        finding("acceptance_length", 3.5, 3.6, Status.PASSED),
        finding("step_time", 9.0, 9.0, Status.PASSED),
    )
    assert told == (
        "a step brings fewer tokens, though drafts are accepted as before (acceptance length 3.5 "
        "→ 3.6) and engine steps take no longer (9 → 9 ms): the drafter drafts less often"
    )


@pytest.mark.parametrize("status", [Status.PASSED, Status.IMPROVED, Status.INCONCLUSIVE])
def test_nothing_lost_needs_no_cause(status):
    """A drift that the gate lets pass is not explained."""
    length = finding("acceptance_length", 2.9, 2.8, status)
    assert likely_cause((length, finding("step_time", 9.0, 9.0, status))) is None


def test_without_speculation_nothing_is_guessed():
    """An ITL alone points nowhere; nor do figures that the baseline lacks."""
    assert likely_cause((ITL,)) is None
    new = Finding("acceptance_length", Status.NO_BASELINE, "not in the baseline", value=2.1)
    assert likely_cause((ITL, new, finding("step_time", 9.0, 9.0))) is None


def test_limits_do_not_stand_for_what_changed():
    """A limit on the step's time says nothing of what it was."""
    limit = finding("step_time", 9.0, 12.0, Status.SLO_VIOLATED, kind="slo")
    assert likely_cause((limit, finding("acceptance_length", 2.9, 2.9, Status.PASSED))) is None


def test_a_broken_limit_has_a_cause_too():
    """An SLO on the ITL, broken because drafts are accepted less."""
    limit = Finding("itl.mean", Status.SLO_VIOLATED, "", kind="slo", value=4.3)
    length = finding("acceptance_length", 2.9, 2.1)
    assert "look at the drafter" in str(
        likely_cause((limit, length, finding("step_time", 9.0, 9.0, Status.PASSED)))
    )
