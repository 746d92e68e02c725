"""The likely cause of a loss, where the findings point to one.

Under speculative decoding an inter-token latency is the time of an engine step over the tokens
that a step brings, so a drafter that is accepted less looks like a slower engine until the two
are told apart (``step_time``, ``acceptance_length``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_llmperf.gate import Rule
from pytest_llmperf.metrics import figure
from pytest_llmperf.model.verdict import Finding, Status

EFFECT = Rule().smallest_effect
"""The smallest loss that counts, a share: the gate's own."""
LOST = (Status.REGRESSED, Status.SLO_VIOLATED)


def likely_cause(findings: Iterable[Finding]) -> str | None:
    """Return what most likely made figures worse, or None where nothing points to it.

    Only where something was lost, and by what the findings against a baseline say of
    speculative decoding.
    """
    findings = list(findings)
    if not any(finding.status in LOST for finding in findings):
        return None
    against = {f.figure: f for f in findings if f.kind == "baseline" and f.change is not None}
    step, length = against.get("step_time"), against.get("acceptance_length")
    if step is None or length is None:
        return None
    slower, accepted_less = (finding.status is Status.REGRESSED for finding in (step, length))
    if not (slower or accepted_less):  # neither by itself, while what they make up has
        slower, accepted_less = _loss(step) >= EFFECT, _loss(length) >= EFFECT
    told = _Told(f"{_shown(step)} ms", f"acceptance length {_shown(length)}")
    if slower or accepted_less:
        return told.cause(slower=slower, accepted_less=accepted_less)
    return told.fewer_drafts if _fewer_drafts(against.get("itl.mean"), step) else None


@dataclass(frozen=True, slots=True)
class _Told:
    """What is said, by how a step's time and the acceptance length went."""

    steps: str
    accepted: str

    def cause(self, *, slower: bool, accepted_less: bool) -> str:
        if slower and accepted_less:
            return (
                f"two things: the drafter is accepted less ({self.accepted}), and engine steps "
                f"take longer ({self.steps})"
            )
        if accepted_less:
            return (
                f"the drafter is accepted less ({self.accepted}), engine steps take no longer "
                f"({self.steps}): look at the drafter, not at the engine"
            )
        return (
            f"engine steps take longer ({self.steps}), drafts are accepted as before "
            f"({self.accepted}): look at the engine, not at the drafter"
        )

    @property
    def fewer_drafts(self) -> str:
        return (
            f"a step brings fewer tokens, though drafts are accepted as before ({self.accepted}) "
            f"and engine steps take no longer ({self.steps}): the drafter drafts less often"
        )


def _fewer_drafts(itl: Finding | None, step: Finding) -> bool:
    """Whether tokens come slower than steps do, which is when a step brings fewer of them."""
    if itl is None or itl.change is None or step.change is None:
        return False
    return (1 + itl.change) / (1 + step.change) - 1 >= EFFECT


def _loss(finding: Finding) -> float:
    """Return the change as a loss: above 0 is worse."""
    change = finding.change or 0.0
    return -change if figure(finding.figure).higher_is_better else change


def _shown(finding: Finding) -> str:
    return f"{finding.reference:.3g} → {finding.value:.3g}"
