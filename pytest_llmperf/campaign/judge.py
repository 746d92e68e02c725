"""Judge a test's share of a campaign: SLOs, the stored baseline, a ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pytest_llmperf.campaign.results import CampaignResult
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate import (
    EXACT_TOLERANCE,
    Rule,
    judge_exact,
    judge_limit,
    judge_ratio,
    judge_values,
)
from pytest_llmperf.metrics import figure, gated_figures
from pytest_llmperf.model.baseline import Baseline, Values
from pytest_llmperf.model.metric import Figure
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.slo import Slo
from pytest_llmperf.model.verdict import Finding, Noise, Status, Verdict
from pytest_llmperf.store.baselines import NoBaseline


@dataclass(frozen=True)
class Gate:
    """Which figures are judged against a baseline, and how strictly.

    ``tolerances``: figure → the loss that must not pass, where the figure's own default is
    not wanted. ``alpha``: the chance of a false alarm a figure, from the session's size.
    """

    figures: tuple[Figure, ...] = field(default_factory=gated_figures)
    tolerances: Mapping[str, float] = field(default_factory=dict)
    alpha: float | None = None

    def rule(self, of: Figure) -> Rule:
        """Return the gate's rule for one figure."""
        rule = Rule(assumed_sd=of.metric.noise)
        tolerance = self.tolerances.get(of.name, of.metric.tolerance)
        return rule if tolerance is None else replace(rule, tolerance=tolerance)


def parse_slos(slos: Mapping[str, str]) -> list[tuple[Figure, Slo]]:
    """Return each limit with its figure; raise SloError or UnknownNameError."""
    figures = [(figure(name), text) for name, text in slos.items()]
    return [(of, Slo.parse(of.name, text, of.unit)) for of, text in figures]


def judge_server(
    test: str,
    server: ServerSpec,
    traffic: str,
    result: CampaignResult,
    *,
    slos: Mapping[str, str],
    baseline: Baseline | NoBaseline | None,
    gate: Gate,
    noise: Callable[[str], Noise | None],
) -> Verdict:
    """Judge one server on one traffic. ``baseline`` None: not asked for.

    ``noise`` gives this machine's pooled noise of a figure, if it has history.
    """
    findings = [_limit(result, server, traffic, of, slo) for of, slo in parse_slos(slos)]
    if isinstance(baseline, NoBaseline):
        findings.append(Finding("baseline", Status.NO_BASELINE, baseline.reason))
    elif baseline is not None:
        findings += _against(result, server, traffic, baseline, gate, noise)
    caveats = caveats_of(result, server, traffic)
    return Verdict(test, server.name, traffic, tuple(findings), caveats)


def judge_comparison(
    test: str,
    servers: tuple[ServerSpec, ServerSpec],
    traffic: str,
    result: CampaignResult,
    figure_name: str,
    *,
    at_least: float | None,
    at_most: float | None,
) -> Verdict:
    """Judge the ratio candidate / reference of a figure by the pairs of a campaign."""
    of = figure(figure_name)
    reference, candidate = servers
    pairs = result.pairs(reference.name, candidate.name, traffic, of.name)
    finding = (
        judge_ratio(
            pairs,
            figure=of.name,
            higher_is_better=of.higher_is_better,
            at_least=at_least,
            at_most=at_most,
        )
        if pairs
        else _absent(of, "ratio")
    )
    caveats = caveats_of(result, candidate, traffic)
    return Verdict(
        test,
        candidate.name,
        traffic,
        (replace(finding, unit=of.unit),),
        caveats,
        against=reference.name,
    )


def _limit(
    result: CampaignResult, server: ServerSpec, traffic: str, of: Figure, slo: Slo
) -> Finding:
    values = result.values(server.name, traffic, of.name)
    if not values:
        return _absent(of, "slo")
    finding = judge_limit(values, figure=of.name, upper=slo.upper, limit=slo.limit, text=slo.text)
    return replace(finding, unit=of.unit)


def _against(
    result: CampaignResult,
    server: ServerSpec,
    traffic: str,
    baseline: Baseline,
    gate: Gate,
    noise: Callable[[str], Noise | None],
) -> list[Finding]:
    findings = []
    limited = result.offered_limited(server.name, traffic)
    for of in gate.figures:
        values, stored = result.values(server.name, traffic, of.name), baseline.values(of.name)
        if not values and not stored:
            continue  # neither side has it, such as the weights of a CPU server
        if not values or not stored:
            findings.append(_one_sided(of, measured=bool(values)))
        elif of.metric.throughput and limited:
            findings.append(_offered_limited(of, values))
        else:
            findings.append(_compared(of, values, stored, gate, noise(of.name)))
    return findings


def _compared(
    of: Figure, values: Values, stored: tuple[Values, ...], gate: Gate, noise: Noise | None
) -> Finding:
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


def _offered_limited(of: Figure, values: Values) -> Finding:
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


def _one_sided(of: Figure, *, measured: bool) -> Finding:
    where = "measured now but not in the baseline" if measured else "in the baseline but not now"
    return Finding(
        of.name,
        Status.NO_BASELINE if measured else Status.INCONCLUSIVE,
        f"{of.name} is {where}",
        unit=of.unit,
    )


def _absent(of: Figure, kind: str) -> Finding:
    # A limit or a ratio that nobody looked at must not be taken for one that holds.
    return Finding(
        of.name,
        Status.INVALID,
        f"{of.name} was not measured: no replay or launch of this server gives it",
        kind="slo" if kind == "slo" else "ratio",
        unit=of.unit,
    )


def simulated(result: CampaignResult, server: ServerSpec) -> bool:
    """Whether what was measured is the simulated engine, attached to or launched."""
    versions = [run.facts.engine_version or "" for run in result.launches if run.server == server]
    return ENGINES[server.engine].simulated or any(v.endswith("-sim") for v in versions)


def caveats_of(result: CampaignResult, server: ServerSpec, traffic: str) -> tuple[str, ...]:
    """Return what must be said wherever a verdict on this measurement is shown."""
    engine = ENGINES[server.engine]
    caveats = []
    if simulated(result, server):
        caveats.append("SIMULATED: no real server was measured")
    if not engine.managed:
        caveats.append(
            "attached to a running server: its replays stand for one launch, launch noise assumed"
        )
    if result.missing:
        caveats.append(f"incomplete: {result.missing}")
    if traffic in result.traffics:
        caveats += result.traffics[traffic].notes
    return tuple(caveats)
