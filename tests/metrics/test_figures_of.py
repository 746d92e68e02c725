"""Figures by name, statistics as numpy's, and new metrics by one file."""

from __future__ import annotations

import sys

import pytest

from pytest_llmperf import metrics
from pytest_llmperf.errors import UnknownNameError
from pytest_llmperf.metrics import METRICS, figure, figures_of, gated_figures, launch_figures
from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.metric import Fact, Metric


def test_statistics_are_numpys(record, replay):
    """TTFTs of 10, 20, 30, 40 ms: percentiles interpolate, std is the population's.

    p90 lies at 0.9 * 3 = 2.7 between the third and fourth: 30 + 0.7 * 10.
    std: sqrt((15² + 5² + 5² + 15²) / 4).
    """
    figures = figures_of(replay(*(record(0, [ttft]) for ttft in (40, 10, 30, 20))))
    found = {name: figures[f"ttft.{name}"] for name in ("mean", "median", "p90", "p95", "p99")}
    assert found == pytest.approx(
        {"mean": 25.0, "median": 25.0, "p90": 37.0, "p95": 38.5, "p99": 39.7}
    )
    assert figures["ttft.std"] == pytest.approx(125**0.5)


def test_what_a_replay_does_not_have_is_absent(record, replay):
    """No token after the first, no counters, no schedule, no look-up: no figure, never 0."""
    figures = figures_of(replay(record(0, [10])))
    assert set(figures) == {
        *(f"{name}.{s}" for name in ("ttft", "ttft_due", "queue_delay", "e2el") for s in STATS),
        *("output_tps", "total_tps", "steady_output_tps", "peak_output_tps"),
        *("peak_concurrency", "request_rate", "error_rate"),
    }


STATS = ("mean", "median", "p90", "p95", "p99", "std")


def test_all_failed_leaves_the_error_rate(record, replay):
    """No latency, no throughput, and an error rate of 1: nothing that looks like a result."""
    failed = record(0, [], done=5, error="HTTP 500", http_status=500)
    assert figures_of(replay(failed, failed)) == {"error_rate": 1.0, "peak_concurrency": 2.0}


def test_no_record_at_all_gives_no_figure(replay):
    """Nothing was sent, nothing is said."""
    assert figures_of(replay()) == {}


def test_a_launch_gives_what_its_log_said():
    """A CPU server's log says no weights: absent, not 0."""
    facts = LaunchFacts(kv_gib=2.0, kv_tokens=8192, max_concurrency=4.0, startup_s=36.5)
    assert launch_figures(facts) == {
        "kv_gib": 2.0,
        "kv_tokens": 8192.0,
        "max_concurrency": 4.0,
        "startup_s": 36.5,
    }
    assert launch_figures(LaunchFacts(weights_gib=27.5)) == {"weights_gib": 27.5}
    assert launch_figures(LaunchFacts()) == {}


def test_every_metric_is_named_as_its_module():
    """The key, the name and the figures agree, and every figure is found by its name."""
    for name in METRICS:
        metric = METRICS[name]
        assert isinstance(metric, Metric)
        assert metric.name == name
        assert metric.title
        for figure_name in metric.figures:
            assert figure(figure_name).metric is metric
        assert set(metric.gated) <= set(metric.figures)


def test_the_figures_that_are_gated():
    """GATE.md's table: name, tolerance of its own, exactness."""
    found = {gated.name: (gated.metric.tolerance, gated.exact) for gated in gated_figures()}
    assert found == {
        "output_tps": (None, False),
        "itl.mean": (None, False),
        "itl.median": (None, False),
        "ttft.p99": (0.10, False),
        "acceptance_length": (None, False),
        "step_time": (None, False),
        "weights_gib": (None, True),
        "kv_tokens": (None, True),
        "max_concurrency": (None, True),
    }


@pytest.mark.parametrize(
    ("arguments", "there"),
    [
        (None, True),  # not known
        (["--max-model-len", "8192"], False),
        (["--speculative-config", '{"method": "ngram"}'], True),
        (['--speculative_config={"method": "ngram"}'], True),
        (["--speculative-config.method", "ngram"], True),
        (["-sc", "{}"], True),
        (["--spec-model", "Qwen/Qwen3-0.6B"], True),
    ],
)
def test_speculations_figures_are_gated_where_a_server_speculates(arguments, there):
    """Every gated figure costs the others power, so one that cannot be is not counted."""
    names = {gated.name for gated in gated_figures(arguments)}
    assert ({"acceptance_length", "step_time"} <= names) is there
    assert "itl.mean" in names


def test_throughput_is_what_arrivals_can_limit():
    """The metrics that say nothing about the server once the offered rate was reached."""
    assert {name for name in METRICS if METRICS[name].throughput} == {
        *("output_tps", "total_tps", "uncached_tps", "steady_output_tps", "peak_output_tps"),
        "request_rate",
    }


@pytest.mark.parametrize(
    ("name", "unit", "higher", "per_launch"),
    [
        ("ttft.p99", "ms", False, False),
        ("output_tps", "tok/s", True, False),
        ("request_rate", "req/s", True, False),
        ("error_rate", "", False, False),
        ("weights_gib", "GiB", False, True),
        ("kv_tokens", "tokens", True, True),
        ("startup_s", "s", False, True),
    ],
)
def test_a_figure_has_its_metrics_unit_and_direction(name, unit, higher, per_launch):
    """What a limit is read in and a loss is signed by."""
    found = figure(name)
    assert (found.unit, found.higher_is_better, found.per_launch) == (unit, higher, per_launch)


def test_startup_is_not_exact():
    """162 to 60 s on one host."""
    metric = METRICS["startup_s"]
    assert isinstance(metric, Fact)
    assert not metric.exact


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "ttft",
            "Known: ttft.mean, ttft.median, ttft.p90, ttft.p95, ttft.p99, ttft.std",
        ),
        (
            "ttft.p98",
            "Known: ttft.mean, ttft.median, ttft.p90, ttft.p95, ttft.p99, ttft.std",
        ),
        ("output_tps.mean", "unknown figure 'output_tps.mean'. Did you mean 'output_tps'?"),
        (
            "outputtps",
            "unknown figure 'outputtps'. Did you mean 'output_tps'? Known: acceptance_length",
        ),
        ("", "unknown figure ''. Known: acceptance_length, acceptance_rate, "),
    ],
)
def test_an_unknown_figure_answers_with_the_known_ones(name, message):
    """Those of the metric where there is one of that name, all of them otherwise."""
    with pytest.raises(UnknownNameError) as caught:
        figure(name)
    assert caught.value.kind == "figure"
    assert message in str(caught.value)


LONGEST = '''
"""Longest answer."""
from pytest_llmperf.model.metric import Better, Scalar

METRIC = Scalar(
    "longest", "Longest answer", "tokens", Better.LOWER,
    lambda replay: max(record.output_tokens for record in replay.records),
    gated=("longest",),
)
'''


@pytest.fixture
def longest(tmp_path, monkeypatch):
    """Drop one file into the package of metrics."""
    (tmp_path / "longest.py").write_text(LONGEST)
    monkeypatch.setattr(metrics, "__path__", [*metrics.__path__, str(tmp_path)])
    yield
    sys.modules.pop("pytest_llmperf.metrics.longest", None)
    vars(metrics).pop("longest", None)


@pytest.mark.usefixtures("longest")
def test_a_new_metric_is_one_file(record, replay):
    """Dropped into the package it is computed, known by name and gated."""
    figures = figures_of(replay(record(0, [10], [3]), record(0, [10], [8])))
    assert figures["longest"] == 8.0
    assert figure("longest").unit == "tokens"
    assert "longest" in [gated.name for gated in gated_figures()]
