"""Judge a test's share of a campaign: SLOs, the stored baseline. A pair's: ``ratios``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pytest_llmperf.campaign._gate import (
    Gate,
    absent,
    compared,
    lacking,
    nothing_judged,
    offered_limited,
)
from pytest_llmperf.campaign.caveats import caveats_of, simulated
from pytest_llmperf.campaign.ratios import judge_comparison, judge_ratios
from pytest_llmperf.campaign.results import CampaignResult
from pytest_llmperf.gate import judge_limit
from pytest_llmperf.metrics import figure
from pytest_llmperf.model.baseline import Baseline
from pytest_llmperf.model.metric import Figure
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.slo import Slo
from pytest_llmperf.model.verdict import Finding, Noise, Status, Verdict
from pytest_llmperf.store.baselines import NoBaseline

__all__ = [
    "Gate",
    "caveats_of",
    "judge_comparison",
    "judge_ratios",
    "judge_server",
    "parse_slos",
    "simulated",
]


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
        findings += _not_measured(result, server, traffic, gate)
    elif baseline is not None:
        findings += _against(result, server, traffic, baseline, gate, noise)
    caveats = caveats_of(result, (server,), traffic, baseline)
    return Verdict(test, server.name, traffic, tuple(findings), caveats)


def _limit(
    result: CampaignResult, server: ServerSpec, traffic: str, of: Figure, slo: Slo
) -> Finding:
    values = result.values(server.name, traffic, of.name)
    if not values:
        return absent(of, "slo")
    finding = judge_limit(values, figure=of.name, upper=slo.upper, limit=slo.limit, text=slo.text)
    return replace(finding, unit=of.unit)


def _not_measured(
    result: CampaignResult, server: ServerSpec, traffic: str, gate: Gate
) -> list[Finding]:
    """Return the chosen figures that tonight lacks: a first night must not be accepted so."""
    figures = gate.figures if gate.chosen else ()
    return [
        absent(of, "baseline") for of in figures if not result.values(server.name, traffic, of.name)
    ]


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
        if not values or not stored:
            told = lacking(of, gate, (server,), measured=bool(values), stored=bool(stored))
            findings += [told] if told else []
        elif of.metric.throughput and limited:
            findings.append(offered_limited(of, values))
        else:
            findings.append(compared(of, values, stored, gate, noise(of.name)))
    return findings or [nothing_judged(gate)]
