"""Time from start to ready: ``startup_s``, in s, lower is better.

Source: the launch's own clock. Not exact and not gated: 162 s compiling and 60 to 75 s after
that on one unchanged host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.model.metric import Better, Fact

if TYPE_CHECKING:
    from pytest_llmperf.model.launch import LaunchFacts


def value(facts: LaunchFacts) -> float | None:
    """Return the seconds from start to ready; None where the launch did not say."""
    return facts.startup_s


METRIC = Fact("startup_s", "Start-up", "s", Better.LOWER, value, exact=False)
