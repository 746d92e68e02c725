"""A ratio of two servers tonight beside the ratios of accepted nights: words and units.

Each launch pair gives one value, candidate / reference, and ``judge_values`` and ``judge_exact``
judge nights × pairs × 1 of them like any other figure: a night is the mean of its pairs.

**The noise to assume** while too few nights are accepted is that of the figure's own nights
(``gate.assumed``). What a night does to both servers alike cancels in a pair, what launches do
by themselves is in it twice: with half the variance of a night's mean from the night and half
from its launches, which GATE.md's simulations take, √(2 · ½) = 1. By GATE.md's measured noise
three pairs of three replays differ by less: output TPS 0.2 % (1 % assumed), ITL mean 0.7 % (1 %),
TTFT p99 0.9 % (2 %), TTFT mean 2.7 % (5 %). The rest is left for what a night does to one server
and not to the other.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_llmperf.gate._words import count, measured, percent
from pytest_llmperf.model.verdict import Finding, Status

TIMES = "\N{MULTIPLICATION SIGN}"
"""The unit of a ratio that is judged against ratios; no other finding has it."""


def as_ratio(finding: Finding, *, replays: int) -> Finding:
    """Return what was judged on ratios as a finding on a ratio: kind, unit and words.

    ``replays``: of each launch of a pair; the finding's own count is 1, as a pair has one value.
    """
    marked = replace(finding, kind="ratio", unit=TIMES)
    if finding.value is None:
        return marked
    lead = f"{measured(finding.value)} {TIMES} the reference's"
    if finding.reference is not None:
        lead += f", accepted {measured(finding.reference)}"
    said = _open(finding) if finding.status is Status.INCONCLUSIVE else finding.reason
    values = 1 if finding.noise == "exact" else replays
    return replace(marked, reason=f"{lead}; {said}", replays=values)


def _open(finding: Finding) -> str:
    """Say why it is open. A ratio has a reference at hand already, so more pairs are the cure."""
    nights = count(finding.nights, "accepted night")
    low, high = finding.interval or (0.0, 0.0)
    seen = finding.smallest_detectable_change or 0.0
    pairs = finding.launches_needed
    cure = f"{count(pairs, 'pair')} in one night or " if pairs else ""
    return (
        f"a change of {percent(low)} to {percent(high)} is plausible on {nights}, noise {finding.noise}; "
        f"losses from {percent(seen)} on would have been seen; {cure}more accepted nights would decide"
    )
