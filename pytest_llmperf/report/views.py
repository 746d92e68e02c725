"""A run as the page looks at it: what was measured, and what was judged on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.report.text import slug

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_llmperf.store.runs import Launch, Run, StoredReplay, StoredVerdict

SEVERITY = (
    Status.REGRESSED,
    Status.SLO_VIOLATED,
    Status.INVALID,
    Status.INCONCLUSIVE,
    Status.NO_BASELINE,
    Status.IMPROVED,
    Status.PASSED,
)
"""In the order in which a morning reader wants to hear of them."""
QUIET = (Status.PASSED, Status.IMPROVED)


@dataclass(frozen=True)
class Measured:
    """One traffic in one campaign: the launches of one server, or of a pair."""

    campaign: str
    traffic: str
    launches: tuple[Launch, ...]
    position: int

    @property
    def slug(self) -> str:
        """Its part of the ids on the page; nothing else that was measured has it."""
        return f"{slug(self.campaign, self.traffic)}-{self.position}"

    @property
    def title(self) -> str:
        """Campaign and traffic."""
        return f"{self.campaign} / {self.traffic}"

    @cached_property
    def servers(self) -> tuple[str, ...]:
        """The servers' names, one or two."""
        return tuple(dict.fromkeys(launch.server for launch in self.launches))

    def replays(self, server: str | None = None) -> Iterator[tuple[Launch, StoredReplay]]:
        """Yield each replay of this traffic with its launch."""
        for launch in self.launches:
            if server in (None, launch.server):
                for stored in launch.replays:
                    if stored.traffic == self.traffic:
                        yield launch, stored

    def figures(self) -> tuple[str, ...]:
        """Return the names of all figures that any replay has."""
        names = dict.fromkeys(name for _, stored in self.replays() for name in stored.figures)
        return tuple(sorted(names))


@dataclass(frozen=True)
class Judged:
    """One test's verdict with what it was measured on, if that is stored."""

    stored: StoredVerdict
    measured: Measured | None
    position: int

    @property
    def verdict(self) -> Verdict:
        """The verdict itself."""
        return self.stored.verdict

    @property
    def status(self) -> Status:
        """The verdict's status."""
        return self.verdict.status

    @property
    def slug(self) -> str:
        """Its part of the ids on the page; no other test has it."""
        return f"{slug(self.verdict.server, self.verdict.traffic)}-{self.position}"

    @property
    def row(self) -> str:
        """What was judged: the server, and what it was compared with."""
        against = f" against {self.verdict.against}" if self.verdict.against else ""
        return f"{self.verdict.server}{against}"

    @property
    def title(self) -> str:
        """Server and traffic."""
        return f"{self.row} / {self.verdict.traffic}"

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, the worst first."""
        return tuple(sorted(self.verdict.findings, key=lambda f: SEVERITY.index(f.status)))

    @cached_property
    def decisive(self) -> Finding | None:
        """The finding that tells the most: of those that decided, the one surest of its change."""
        deciding = [f for f in self.verdict.findings if f.status is self.status]
        return max(deciding, key=_sureness, default=None)


def measured_of(run: Run) -> tuple[Measured, ...]:
    """Return every traffic of every campaign that was replayed."""
    seen: dict[tuple[str, str], list[Launch]] = {}
    for launch in run.launches:
        for traffic in dict.fromkeys(stored.traffic for stored in launch.replays):
            seen.setdefault((launch.campaign, traffic), []).append(launch)
    return tuple(
        Measured(*key, launches=tuple(seen[key]), position=position)
        for position, key in enumerate(sorted(seen), 1)
    )


def judged_of(run: Run, measured: tuple[Measured, ...]) -> tuple[Judged, ...]:
    """Return every verdict, the worst first."""
    ordered = sorted(
        run.verdicts,
        key=lambda stored: (
            SEVERITY.index(stored.verdict.status),
            stored.verdict.server,
            stored.verdict.traffic,
            stored.verdict.test,
        ),
    )
    return tuple(
        Judged(stored, _measured_for(stored.verdict, measured), position)
        for position, stored in enumerate(ordered, 1)
    )


def _measured_for(verdict: Verdict, measured: tuple[Measured, ...]) -> Measured | None:
    """Return what a verdict was judged on: the pair's campaign, or the server's own."""
    wanted = {verdict.server, verdict.against} - {None}
    label = "-vs-".join(name for name in (verdict.server, verdict.against) if name)
    fitting = [m for m in measured if m.traffic == verdict.traffic and verdict.server in m.servers]
    return min(
        fitting, key=lambda m: (m.campaign != label, len(wanted ^ set(m.servers))), default=None
    )


def _sureness(finding: Finding) -> float:
    """Return a finding's change in widths of its interval; the larger, the surer."""
    if finding.change is None:
        return 0.0
    low, high = finding.interval or (0.0, 0.0)
    return abs(finding.change) / max(high - low, 1e-6)
