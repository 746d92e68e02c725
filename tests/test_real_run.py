"""A run on a real H200, from its artifacts alone: the figures and the verdict come out again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmperf.campaign import CampaignResult, Gate, LaunchResult, ReplayResult, judge_server
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.gate import session_alpha
from pytest_llmperf.metrics import figures_of, launch_figures, offered_limited
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Traffic, TrafficSpec
from pytest_llmperf.report import write_report
from pytest_llmperf.store.baselines import BaselineStore
from pytest_llmperf.store.runs import load_run, read_replay

ROOT = Path(__file__).parent
RUN = ROOT / "data" / "h200" / "20261130-105554-9eea"
BASELINES = ROOT.parent / "baselines"
SERVER = ServerSpec.of("qwen3-14b", "vllm", "Qwen/Qwen3-14B")
LIMITS = {"ttft.p99": "< 200 ms", "itl.mean": "< 50 ms"}


@pytest.fixture(scope="module")
def run():
    """The stored run."""
    return load_run(RUN)


def test_every_figure_is_recomputed_from_the_requests(run):
    """Parquet and JSON are enough: the very numbers that were stored, and metrics made since."""
    (launch,) = run.launches
    assert len(launch.replays) == 2
    for stored in launch.replays:
        figures = figures_of(read_replay(stored.path))
        since = set(figures) - set(stored.figures)
        assert since == {"queue_time", "prefill_time", "decode_time"}
        then = {name: figures[name] for name in stored.figures}
        assert then == pytest.approx(dict(stored.figures), rel=1e-9)


def test_the_figures_are_those_of_an_h200(run):
    """As vLLM's own client measured that server there: 2215 tok/s, 34.6 ms, 9.01 ms."""
    figures = run.launches[0].replays[0].figures
    assert figures["total_tps"] == pytest.approx(2215, rel=0.03)
    assert figures["ttft.mean"] == pytest.approx(34.6, rel=0.03)
    assert figures["tpot.mean"] == pytest.approx(9.01, rel=0.03)


def test_the_memory_budget_is_read_from_the_log(run):
    """27.52 GiB of weights leave 650,560 tokens of KV cache."""
    (launch,) = run.launches
    facts = ENGINES["vllm"].facts(launch.log.read_text())
    assert (facts.weights_gib, facts.kv_gib, facts.kv_tokens) == (27.52, 99.27, 650_560)
    assert (facts.max_concurrency, facts.engine_version) == (79.41, "0.25.1")
    assert facts.kv_tokens == launch.facts.kv_tokens


def _judged(run, slower=1.0):
    """Judge the stored run against the stored night; ``slower`` stretches what it measured."""
    (launch,) = run.launches
    replays = []
    for stored in launch.replays:
        measured = read_replay(stored.path)
        figures = figures_of(measured)
        for name in figures:
            if name.startswith(("itl", "tpot", "ttft")):
                figures[name] *= slower
            if name.endswith("_tps"):
                figures[name] /= slower
        replays.append(ReplayResult(figures, None, offered_limited(measured)))
    facts = launch.facts
    results = LaunchResult(
        SERVER, 1, facts, launch_figures(facts), {"chat": tuple(replays)}, launch.log
    )
    digest = run.traffics[0].digest
    baseline = BaselineStore(BASELINES).find(run.header.machine, "qwen3-14b", "chat", digest)
    return judge_server(
        "t::x",
        SERVER,
        "chat",
        CampaignResult((results,), {"chat": Traffic(TrafficSpec("chat", "sharegpt"), ())}),
        slos=LIMITS,
        baseline=baseline,
        gate=Gate(alpha=session_alpha(4)),
        noise=lambda name: None,
    )


def test_the_verdict_is_reached_again_without_a_gpu(run):
    """The same status on every figure, from artifacts and baseline alone."""
    (stored,) = run.verdicts
    again = _judged(run)
    assert again.status is stored.verdict.status
    assert [(f.figure, f.status, f.reason) for f in again.findings] == [
        (f.figure, f.status, f.reason) for f in stored.verdict.findings
    ]


def test_a_loss_of_ten_percent_would_have_been_seen(run):
    """One launch against one night, noise assumed: still REGRESSED on TPS and ITL."""
    status = {f.figure: f.status.value for f in _judged(run, 1.10).findings if f.kind != "slo"}
    assert status["output_tps"] == status["itl.mean"] == status["itl.median"] == "REGRESSED"


def test_the_report_is_made_of_the_artifacts(tmp_path):
    """The page names the GPU, the verdict and the KV tokens."""
    page = write_report(RUN, tmp_path).read_text()
    for text in ("NVIDIA H200", "Passed", "650,560", "qwen3-14b"):
        assert text in page
