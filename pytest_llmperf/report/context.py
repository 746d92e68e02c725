"""What a section is given: the run, its requests reduced, and the templates."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pytest_llmperf.metrics import METRICS
from pytest_llmperf.model.metric import Figure
from pytest_llmperf.report import text
from pytest_llmperf.report.series import Reduced, reduced
from pytest_llmperf.report.views import QUIET, Judged, Measured, judged_of, measured_of
from pytest_llmperf.store.runs import Run, StoredReplay, masked_text

FEW = 3
"""Up to so many tests are all shown open."""


@dataclass(frozen=True)
class Context:
    """One run on its way to a page in the folder ``out``."""

    run: Run
    out: Path
    _reduced: dict[Path, Reduced] = field(default_factory=dict, repr=False)

    @cached_property
    def judged(self) -> tuple[Judged, ...]:
        """Every verdict, the worst first."""
        return judged_of(self.run, measured_of(self.run))

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        """Every traffic of every campaign that was replayed, in the order of the verdicts."""
        judged = (judged.measured for judged in self.judged if judged.measured)
        return tuple({of.slug: of for of in (*judged, *measured_of(self.run))}.values())

    @cached_property
    def unjudged(self) -> tuple[Measured, ...]:
        """What was replayed and belongs to no verdict."""
        used = {judged.measured.slug for judged in self.judged if judged.measured}
        return tuple(measured for measured in self.measured if measured.slug not in used)

    def verdicts_on(self, measured: Measured) -> tuple[Judged, ...]:
        """Return the verdicts that rest on these launches, the worst first."""
        return tuple(
            judged
            for judged in self.judged
            if judged.measured and judged.measured.slug == measured.slug
        )

    def servers_of(self, measured: Measured) -> tuple[str, ...]:
        """Return the servers, the one that was judged first: it has the first colour."""
        judged = (judged.verdict.server for judged in self.verdicts_on(measured))
        return tuple(dict.fromkeys((*judged, *measured.servers)))

    def is_open(self, measured: Measured | None) -> bool:
        """Whether to show these at once: few, unjudged, or not passed."""
        if measured is None or len(self.measured) <= FEW:
            return True
        verdicts = self.verdicts_on(measured)
        return not verdicts or any(judged.status not in QUIET for judged in verdicts)

    def reduced(self, stored: StoredReplay) -> Reduced:
        """Return a replay's requests as a chart can show them; they are read once."""
        if stored.path not in self._reduced:
            self._reduced[stored.path] = reduced(stored.path)
        return self._reduced[stored.path]

    def unreadable(self, measured: Measured) -> list[str]:
        """Return why replays that a chart needed could not be read."""
        read = [self._reduced.get(stored.path) for _, stored in measured.replays()]
        return [of.error for of in read if of and of.error]

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Every figure of every metric by name; a look-up in the catalog takes milliseconds."""
        metrics = [METRICS[name] for name in METRICS]
        return {name: Figure(name, metric) for metric in metrics for name in metric.figures}

    def unit_of(self, name: str) -> str:
        """Return a figure's unit, or nothing where no metric here has it."""
        return self.figures[name].unit if name in self.figures else ""

    def meaning_of(self, name: str) -> str:
        """Return a figure's title and which way is good, as far as that is known."""
        if name not in self.figures:
            return name
        figure = self.figures[name]
        better = "higher" if figure.higher_is_better else "lower"
        return f"{figure.metric.title} ({better} is better)"

    def render(self, template: str, **values: Any) -> Markup:
        """Return the template of that name (in ``report/templates``), everything escaped."""
        page = self._environment.get_template(template)
        return Markup(page.render(context=self, run=self.run, **values))  # noqa: S704 - autoescaped

    def link(self, path: Path) -> str:
        """Return a file of the run as a link from the page."""
        return Path(os.path.relpath(path, self.out)).as_posix()

    @cached_property
    def _environment(self) -> Environment:
        return environment()


def environment() -> Environment:
    """Return the templates' environment: autoescape always, and the page's words as filters."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": text.number,
        "percent": text.percent,
        "interval": text.interval,
        "change": text.change,
        "evidence": text.evidence,
        "moment": text.moment,
        "slug": text.slug,
        "count": text.count,
        "masked": masked_text,
    }
    made.globals |= {"looks": text.LOOKS}
    return made
