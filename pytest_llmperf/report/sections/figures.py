"""Every figure judged: baseline, now, change with its interval, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_llmperf.metrics import launch_figures
from pytest_llmperf.model.metric import STATISTICS
from pytest_llmperf.report.section import Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from markupsafe import Markup

    from pytest_llmperf.report.context import Context
    from pytest_llmperf.report.views import Judged, Measured
    from pytest_llmperf.store.runs import Launch

WIDEST = 0.25
"""Changes beyond this share are drawn at the edge."""
NARROWEST = 0.06


@dataclass(frozen=True)
class Row:
    """One measured figure: a mean a launch, and how far the launches lie apart."""

    figure: str
    unit: str
    launches: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the launch means."""
        return fmean(self.launches)

    @property
    def spread(self) -> float | None:
        """(largest - smallest) / mean of the launch means."""
        if len(self.launches) < 2 or not self.mean:  # noqa: PLR2004 - one launch has no spread
            return None
        return (max(self.launches) - min(self.launches)) / self.mean


@dataclass(frozen=True)
class Block:
    """Everything measured of one server: latencies by metric and statistic, and the rest."""

    measured: Measured
    server: str
    latencies: Mapping[str, Mapping[str, Row]]
    others: tuple[Row, ...]


def render(context: Context) -> Markup | None:
    """Return a table a test, and below them every figure that was measured."""
    if not context.judged and not context.measured:
        return None
    blocks = [_block(context, of, server) for of in context.measured for server in of.servers]
    scales = {judged.slug: _scale(judged) for judged in context.judged}
    return context.render("figures.html", scales=scales, blocks=blocks, statistics=STATISTICS)


def _scale(judged: Judged) -> float:
    """Return the share at the edge of a test's change bars, one for all its rows."""
    ends = [abs(end) for f in judged.findings if f.interval for end in f.interval]
    changes = [abs(f.change) for f in judged.findings if f.change is not None]
    return min(max([*ends, *changes, NARROWEST]), WIDEST)


def _block(context: Context, measured: Measured, server: str) -> Block:
    launches = [launch for launch in measured.launches if launch.server == server]
    means = [_means(of, measured.traffic) for of in launches]
    latencies: dict[str, dict[str, Row]] = {}
    others = []
    for name in dict.fromkeys(name for figures in means for name in sorted(figures)):
        found = tuple(figures[name] for figures in means if name in figures)
        row = Row(name, context.unit_of(name), found)
        metric, _, statistic = name.partition(".")
        if statistic in STATISTICS:
            latencies.setdefault(metric, {})[statistic] = row
        else:
            others.append(row)
    return Block(measured, server, latencies, tuple(others))


def _means(launch: Launch, traffic: str) -> dict[str, float]:
    """Return figure → mean of a launch's replays; the invalid ones count only if all are."""
    replays = [stored for stored in launch.replays if stored.traffic == traffic]
    trusted = [stored for stored in replays if not stored.invalid] or replays
    names = dict.fromkeys(name for stored in trusted for name in stored.figures)
    means = {name: fmean(s.figures[name] for s in trusted if name in s.figures) for name in names}
    return means | (launch_figures(launch.facts) if launch.facts else {})


SECTION = Section("Figures", 20, render)
