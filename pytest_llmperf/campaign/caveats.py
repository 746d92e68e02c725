"""What must be said wherever a verdict is shown: of the servers, and of what was missing."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmperf.campaign.answers import answer_notes
from pytest_llmperf.campaign.results import CampaignResult
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.model.baseline import Baseline
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.store.baselines import NoBaseline


def simulated(result: CampaignResult, server: ServerSpec) -> bool:
    """Whether what was measured is the simulated engine, attached to or launched."""
    versions = [run.facts.engine_version or "" for run in result.launches if run.server == server]
    return ENGINES[server.engine].simulated or any(v.endswith("-sim") for v in versions)


def caveats_of(
    result: CampaignResult,
    servers: Sequence[ServerSpec],
    traffic: str,
    baseline: Baseline | NoBaseline | None = None,
) -> tuple[str, ...]:
    """Return what must be said of a measurement of one server, or of a pair.

    ``baseline``: what it is judged against, if it is: whether answers are as then is said too.
    """
    caveats = []
    if any(simulated(result, server) for server in servers):
        caveats.append("SIMULATED: no real server was measured")
    if any(not ENGINES[server.engine].managed for server in servers):
        caveats.append(
            "attached to a running server: its replays stand for one launch, launch noise assumed"
        )
    if result.missing:
        caveats.append(f"incomplete: {result.missing}")
    if traffic in result.traffics:
        caveats += result.traffics[traffic].notes
    caveats += answer_notes(result, servers, traffic, baseline)
    return tuple(caveats)
