"""How a verdict reads in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_llmperf.campaign.cause import likely_cause
from pytest_llmperf.model.baseline import Baseline
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.store.baselines import server_record

THOUSAND = 1000
BAD = (Status.SLO_VIOLATED, Status.REGRESSED, Status.INCONCLUSIVE, Status.NO_BASELINE)


def number(value: float, unit: str = "") -> str:
    """Return four significant digits, thousands separated: ``1,022 tok/s``, ``9.018 ms``."""
    digits = f"{value:,.0f}" if abs(value) >= THOUSAND else f"{value:.4g}"
    return f"{digits} {unit}".rstrip()


def percent(share: float) -> str:
    """Return ``+10.0 %``, with a true minus sign."""
    return f"{share * 100:+.1f} %".replace("-", "\N{MINUS SIGN}")


def finding_line(finding: Finding) -> str:
    """Return one finding in one line: figure, baseline → now, change with its interval."""
    parts = [f"{finding.figure:<14}"]
    if finding.reference is not None and finding.value is not None:
        shown = number(finding.value, finding.unit)
        parts.append(f"{number(finding.reference)} → {shown}")
    elif finding.value is not None:
        parts.append(number(finding.value, finding.unit))
    if finding.change is not None:
        change = percent(finding.change)
        if finding.interval is not None:
            low, high = finding.interval
            change += f" [{percent(low)} … {percent(high)}]"
        parts.append(change)
    parts.append(finding.reason)
    return "  ".join(parts)


def headline(verdict: Verdict) -> str:
    """Return the status and what it is about, with SIMULATED where it is."""
    against = f" against {verdict.against}" if verdict.against else ""
    simulated = " (SIMULATED)" if any(c.startswith("SIMULATED") for c in verdict.caveats) else ""
    return f"{verdict.status.value}{simulated}: {verdict.server} on {verdict.traffic}{against}"


def describe(
    verdict: Verdict, *, changed: Sequence[str] = (), places: Mapping[str, Any] | None = None
) -> str:
    """Return the whole message: findings that decided first, evidence, where to look.

    ``changed``: what differs from what the baseline was measured with. ``places``: a name →
    path of log, report and run.
    """
    lines = [headline(verdict)]
    decisive = [f for f in verdict.findings if f.status is verdict.status]
    others = [f for f in verdict.findings if f not in decisive]
    lines += [f"  {finding_line(f)}" for f in decisive]
    if noted := [f for f in others if f.status in BAD]:
        lines += [f"  also {f.status.value}: {finding_line(f)}" for f in noted]
    if evidence := _evidence(decisive or verdict.findings):
        lines.append(f"  evidence: {evidence}")
    if cause := likely_cause(verdict.findings):
        lines.append(f"  likely cause: {cause}")
    lines += [f"  changed since the baseline: {what}" for what in changed]
    lines += [f"  note: {caveat}" for caveat in verdict.caveats if "SIMULATED" not in caveat]
    lines += [f"  {name}: {place}" for name, place in (places or {}).items()]
    return "\n".join(lines)


def _evidence(findings: Sequence[Finding]) -> str:
    best = max(findings, key=lambda f: f.launches * f.replays, default=None)
    if best is None or not best.launches:
        return ""
    nights = f" against {best.nights} accepted night{'s' * (best.nights != 1)}"
    return (
        f"{best.launches} launch{'es' * (best.launches != 1)} × {best.replays} "
        f"replay{'s' * (best.replays != 1)}{nights if best.nights else ''}, noise {best.noise}"
    )


def differences(server: ServerSpec, baseline: Baseline, version: str | None) -> list[str]:
    """Return how server and engine differ from what the last accepted night ran."""
    now = server_record(server)  # with secrets masked, as they are stored
    lines = []
    for key in ("engine", "model", "arguments", "environment"):
        then = baseline.server.get(key)
        if then is not None and then != now[key]:
            lines.append(f"{key} {_difference(then, now[key])}")
    stored = baseline.nights[-1].provenance.get("engine_version") if baseline.nights else None
    if stored and version and stored != version:
        lines.append(f"engine version {stored} → {version}")
    return lines


def _grouped(words: Sequence[str]) -> list[str]:
    """Return an option and its values as one: what changed is then told with its name."""
    groups: list[str] = []
    for word in words:
        if groups and not word.startswith("-"):
            groups[-1] += f" {word}"
        else:
            groups.append(word)
    return groups


def _difference(then: Any, now: Any) -> str:
    if isinstance(now, dict):
        then, now = ([f"{k}={v}" for k, v in sorted(pairs.items())] for pairs in (then, now))
    if not isinstance(now, list):
        return f"{then} → {now}"
    then, now = _grouped(then), _grouped(now)
    added = [word for word in now if word not in then]
    gone = [word for word in then if word not in now]
    words = [f"+ {' '.join(added)}"] * bool(added)
    words += [f"\N{MINUS SIGN} {' '.join(gone)}"] * bool(gone)
    return ", ".join(words) or "reordered"
