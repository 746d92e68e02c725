"""Judge a pair by its ratios: against a limit, against accepted nights; and record them.

A ratio is candidate / reference of one figure in one launch pair, the servers in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_llmperf.campaign._gate import (
    Gate,
    absent,
    compared,
    lacking,
    nothing_judged,
    offered_limited,
)
from pytest_llmperf.campaign.caveats import caveats_of
from pytest_llmperf.campaign.results import CampaignResult
from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate import judge_ratio
from pytest_llmperf.gate.ratio import record_ratio
from pytest_llmperf.gate.ratio_nights import TIMES, as_ratio
from pytest_llmperf.metrics import figure
from pytest_llmperf.model.baseline import Baseline, Values
from pytest_llmperf.model.metric import Figure
from pytest_llmperf.model.noise import night_mean
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.verdict import Finding, Noise, Status, Verdict
from pytest_llmperf.store.baselines import NoBaseline

ALWAYS = ("total_tps", "output_tps", "ttft.mean", "itl.mean")
"""Ratios that every comparison records, whatever it asks: those that people quote."""

Pair = tuple[ServerSpec, ServerSpec]
"""Reference and candidate."""


def judge_comparison(
    test: str,
    servers: Pair,
    traffic: str,
    result: CampaignResult,
    figure_name: str,
    *,
    at_least: float | None,
    at_most: float | None,
) -> Verdict:
    """Judge the ratio candidate / reference of a figure by the pairs of a campaign.

    A throughput that measures the arrivals on either side is INCONCLUSIVE: its ratio says
    nothing of the servers.
    """
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
            exact=of.exact,
        )
        if pairs
        else absent(of, "ratio", _whose(result, servers, traffic, of))
    )
    if pairs and of.metric.throughput and _limited(result, servers, traffic):
        finding = _hidden_by_arrivals(finding)
    told = (replace(finding, unit=of.unit),)
    caveats = caveats_of(result, servers, traffic)
    return Verdict(test, candidate.name, traffic, told, caveats, against=reference.name)


def _whose(result: CampaignResult, servers: Pair, traffic: str, of: Figure) -> str:
    """Say who lacks a figure that no pair of launches has."""
    names = [s.name for s in servers if not result.values(s.name, traffic, of.name)]
    return " or ".join(names) or "one server or the other"


def _hidden_by_arrivals(finding: Finding) -> Finding:
    """Return the finding as open, which no number of pairs would change."""
    reason = (
        f"{1 + (finding.change or 0.0):.3g} times the reference, and the arrivals were the limit: a "
        "server that kept up with them could do more. Raise the request rate to judge it"
    )
    return replace(
        finding, status=Status.INCONCLUSIVE, reason=reason, launches_needed=None, open=False
    )


def ratios_of(result: CampaignResult, servers: Pair, traffic: str) -> dict[str, Values]:
    """Return every figure's ratios, candidate / reference: launch pairs × 1, in order.

    A launch is the mean of its replays as the gate takes it. A figure that is not above 0
    everywhere has no ratio.
    """
    reference, candidate = (server.name for server in servers)
    found: dict[str, Values] = {}
    for name in result.figures(candidate, traffic):
        pairs = result.pairs(reference, candidate, traffic, name)
        if pairs and all(value > 0 for pair in pairs for row in pair for value in row):
            found[name] = tuple(((night_mean([c]) / night_mean([r])),) for r, c in pairs)
    return found


def judge_ratios(
    test: str,
    servers: Pair,
    traffic: str,
    result: CampaignResult,
    *,
    baseline: Baseline | NoBaseline,
    gate: Gate,
    noise: Callable[[str], Noise | None],
) -> Verdict:
    """Judge the ratios of the gated figures against those of accepted nights.

    ``noise`` gives this machine's noise of a figure, pooled over its ratios.
    """
    reference, candidate = servers
    tonight = ratios_of(result, servers, traffic)
    if isinstance(baseline, NoBaseline):
        reason = baseline.reason + _told(tonight, gate)
        gone = [of for of in gate.figures if gate.chosen and of.name not in tonight]
        findings = [
            Finding("baseline", Status.NO_BASELINE, reason),
            *(_without_ratio(of, result, servers, traffic) for of in gone),
        ]
    else:
        replays = _replays(result, candidate, traffic)
        findings = [
            as_ratio(finding, replays=replays)
            for of in gate.figures
            if (finding := _against(of, tonight, baseline, gate, noise, result, servers, traffic))
        ] or [nothing_judged(gate)]
    caveats = caveats_of(result, servers, traffic, baseline)
    return Verdict(test, candidate.name, traffic, tuple(findings), caveats, against=reference.name)


def _replays(result: CampaignResult, server: ServerSpec, traffic: str) -> int:
    """Return the most replays that a launch of this server has of this traffic."""
    return max((len(run.replays[traffic]) for run in result.of(server.name, traffic)), default=1)


def _against(
    of: Figure,
    tonight: dict[str, Values],
    baseline: Baseline,
    gate: Gate,
    noise: Callable[[str], Noise | None],
    result: CampaignResult,
    servers: Pair,
    traffic: str,
) -> Finding | None:
    values, stored = tonight.get(of.name), baseline.values(of.name)
    if not values and not stored:
        return _without_ratio(of, result, servers, traffic) if gate.chosen else None
    if not values or not stored:
        return lacking(of, gate, servers, measured=bool(values), stored=bool(stored))
    if of.metric.throughput and _limited(result, servers, traffic):
        return offered_limited(of, values)
    return compared(of, values, stored, gate, noise(of.name))


def _without_ratio(of: Figure, result: CampaignResult, servers: Pair, traffic: str) -> Finding:
    """Return what a chosen figure is told as that no pair tonight has a ratio of."""
    reference, candidate = servers
    if not result.pairs(reference.name, candidate.name, traffic, of.name):
        return absent(of, "ratio", _whose(result, servers, traffic, of))
    reason = f"{of.name} was 0, which has no ratio. Give it a limit (slo=) of llm_verdict instead"
    return Finding(of.name, Status.INCONCLUSIVE, reason, kind="ratio", unit=of.unit)


def _told(tonight: dict[str, Values], gate: Gate) -> str:
    """Say tonight's ratios, where there is nothing to judge them against."""
    names = dict.fromkeys([*ALWAYS, *(of.name for of in gate.figures)])
    shown = [f"{name} {night_mean(tonight[name]):.3g}" for name in names if name in tonight]
    return f". Tonight, {TIMES} the reference's: {', '.join(shown)}" if shown else ""


def record_ratios(
    result: CampaignResult, servers: Pair, traffic: str, gate: Gate, asked: Sequence[Finding]
) -> tuple[Finding, ...]:
    """Return the ratios that a comparison's verdict shows beside what was ``asked``.

    Those of ``ALWAYS`` and of the gated figures that nothing was asked of. They judge nothing,
    so there are none where nothing else was judged either: such a verdict must not look as if.
    """
    if all(finding.status is Status.NO_BASELINE for finding in asked):
        return ()
    reference, candidate = servers
    told = {finding.figure for finding in asked}
    figures = [figure(name) for name in ALWAYS] + list(gate.figures)
    limited = _limited(result, servers, traffic)
    findings = []
    for of in {of.name: of for of in figures if of.name not in told}.values():
        pairs = result.pairs(reference.name, candidate.name, traffic, of.name)
        try:
            finding = record_ratio(
                pairs, figure=of.name, higher_is_better=of.higher_is_better, exact=of.exact
            )
        except SpecError:  # no pairs, or a 0, which has no ratio
            continue
        findings.append(_told_of_arrivals(replace(finding, unit=of.unit), of, limited=limited))
    return tuple(findings)


def _limited(result: CampaignResult, servers: Pair, traffic: str) -> bool:
    return any(result.offered_limited(server.name, traffic) for server in servers)


def _told_of_arrivals(finding: Finding, of: Figure, *, limited: bool) -> Finding:
    """Return the finding; of a throughput it says where the arrivals were the limit."""
    if not (of.metric.throughput and limited):
        return finding
    note = "offered-limited: a server that kept up with the arrivals could do more"
    return replace(finding, reason=f"{finding.reason}; {note}")


def undecided_pairs(verdict: Verdict) -> bool:
    """Whether a ratio that was expected is open: tonight, not beside accepted nights."""
    return any(
        finding.status is Status.INCONCLUSIVE and finding.expected for finding in verdict.findings
    )
