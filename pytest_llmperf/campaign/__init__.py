"""The campaign: the one place that knows the order of work.

launch → warm up → replay every traffic → stop, again and again; for a pair, the two servers
in turn. Then each test's share is judged.
"""

from pytest_llmperf.campaign.judge import Gate, caveats_of, judge_comparison, judge_server
from pytest_llmperf.campaign.message import describe, headline
from pytest_llmperf.campaign.results import CampaignResult, LaunchResult, ReplayResult
from pytest_llmperf.campaign.runner import Tools, run_campaign
from pytest_llmperf.campaign.spec import CampaignSpec, Plan

__all__ = [
    "CampaignResult",
    "CampaignSpec",
    "Gate",
    "LaunchResult",
    "Plan",
    "ReplayResult",
    "Tools",
    "caveats_of",
    "describe",
    "headline",
    "judge_comparison",
    "judge_server",
    "run_campaign",
]
