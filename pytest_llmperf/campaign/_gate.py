"""Which figures are judged against accepted nights, and the findings that this can come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate import EXACT_TOLERANCE, Rule, judge_exact, judge_values
from pytest_llmperf.metrics import gated_figures, speculating
from pytest_llmperf.model.baseline import Values
from pytest_llmperf.model.metric import Figure
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.verdict import Finding, Kind, Noise, Status


@dataclass(frozen=True)
class Gate:
    """Which figures are judged against a baseline, and how strictly.

    ``tolerances``: figure → the loss that must not pass, where the figure's own default is
    not wanted. ``alpha``: the chance of a false alarm a figure, from the session's size.
    ``chosen``: the suite named the figures itself, so each of them is told of whatever comes;
    the default ones are those of any server, and some have none of them.
    """

    figures: tuple[Figure, ...] = field(default_factory=gated_figures)
    tolerances: Mapping[str, float] = field(default_factory=dict)
    alpha: float | None = None
    chosen: bool = False

    def rule(self, of: Figure) -> Rule:
        """Return the gate's rule for one figure."""
        rule = Rule(assumed_sd=of.metric.noise)
        tolerance = self.tolerances.get(of.name, of.metric.tolerance)
        return rule if tolerance is None else replace(rule, tolerance=tolerance)


def compared(
    of: Figure, values: Values, stored: tuple[Values, ...], gate: Gate, noise: Noise | None
) -> Finding:
    """Judge launches × replays of a figure against accepted nights of it."""
    try:
        if of.exact:
            finding = judge_exact(
                [row[0] for row in values],
                [[row[0] for row in night] for night in stored],
                figure=of.name,
                higher_is_better=of.higher_is_better,
                tolerance=gate.tolerances.get(of.name, EXACT_TOLERANCE),
            )
        else:
            finding = judge_values(
                values,
                stored,
                figure=of.name,
                higher_is_better=of.higher_is_better,
                rule=gate.rule(of),
                noise=noise,
                alpha=gate.alpha,
            )
    except SpecError as error:  # such as a 0, which has no logarithm
        finding = Finding(of.name, Status.INCONCLUSIVE, f"{error}. Give it a limit (slo=) instead")
    return replace(finding, unit=of.unit)


def offered_limited(of: Figure, values: Values) -> Finding:
    """Return what a throughput is told as that measures the arrivals, not the server."""
    means = [sum(row) / len(row) for row in values]
    return Finding(
        of.name,
        Status.PASSED,
        "offered-limited: the server kept up with the arrivals, so this throughput is theirs. "
        "Not gated; raise the request rate to gate it",
        value=sum(means) / len(means),
        unit=of.unit,
        launches=len(values),
        replays=max(map(len, values)),
    )


def lacking(
    of: Figure, gate: Gate, servers: Sequence[ServerSpec], *, measured: bool, stored: bool
) -> Finding | None:
    """Return what is told of a figure that tonight, the accepted nights or both do not have.

    None, for default figures alone: where neither has it, such as the weights of a CPU server;
    and where one of the ``servers`` speculates no more: a changed argument, told as that.
    """
    if not gate.chosen:
        off = of.metric.speculative and any(_not_speculating(server) for server in servers)
        if not measured and (off or not stored):
            return None
    return one_sided(of, measured=measured) if measured or stored else absent(of, "baseline")


def _not_speculating(server: ServerSpec) -> bool:
    """Whether the arguments say so; those of a server that we do not start are not known."""
    return ENGINES[server.engine].managed and not speculating(server.arguments)


def nothing_judged(gate: Gate) -> Finding:
    """Return what is told where no gated figure came to a finding: that must not pass."""
    names = ", ".join(of.name for of in gate.figures)
    why = f"neither tonight nor the accepted nights have {names}" if names else "gate= is empty"
    return Finding("baseline", Status.INVALID, f"no figure was judged against it: {why}")


def one_sided(of: Figure, *, measured: bool) -> Finding:
    """Return what is told of a figure that only tonight has (``measured``), or only the nights."""
    where = "measured now but not in the baseline" if measured else "in the baseline but not now"
    return Finding(
        of.name,
        Status.NO_BASELINE if measured else Status.INCONCLUSIVE,
        f"{of.name} is {where}",
        unit=of.unit,
    )


def absent(of: Figure, kind: Kind, whose: str = "this server") -> Finding:
    """Return what a figure is told as that something was asked of and nobody measured.

    A limit or a ratio that nobody looked at must not be taken for one that holds. ``whose``
    replays and launches lack it.
    """
    return Finding(
        of.name,
        Status.INVALID,
        f"{of.name} was not measured: no replay or launch of {whose} gives it",
        kind=kind,
        unit=of.unit,
    )
