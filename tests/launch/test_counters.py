from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmperf.launch import counters_from, restarted, risen
from pytest_llmperf.launch.counters import labels_of

METRICS = Path(__file__).parents[1] / "data" / "logs" / "metrics-h200.txt"


@pytest.fixture(scope="module")
def text() -> str:
    return METRICS.read_text()


def test_series_of_a_name_are_summed(text):
    """Counters and gauges of a real vLLM 0.25.1, over their labels."""
    found = counters_from(text)
    assert found["vllm:prompt_tokens_total"] == 1_016_278.0
    assert found["vllm:generation_tokens_total"] == 311_552.0
    assert found["vllm:request_success_total"] == 2200.0  # stop, length, abort, error, repetition
    assert found["python_gc_objects_collected_total"] == 14104 + 1868 + 467
    assert found["vllm:num_requests_running"] == 0.0


def test_histograms_give_sum_and_count(text):
    """Cumulative buckets have no sum; creation times are no figures."""
    found = counters_from(text)
    assert found["vllm:time_to_first_token_seconds_count"] == 2200.0
    assert found["vllm:time_to_first_token_seconds_sum"] == pytest.approx(30_037.1938)
    assert not [name for name in found if name.endswith(("_bucket", "_created"))]


def test_what_is_no_exposition_is_refused():
    """A page of HTML does not read as no counters."""
    with pytest.raises(ValueError, match=r"\w"):
        counters_from("<html><body class='x'>hello</body></html>")


def test_rises_are_those_of_counters():
    """A counter that was not there before rose from nothing; gauges have no rise."""
    before = {"a_total": 2.0, "g": 9.0, "h_sum": 1.5, "h_count": 1.0}
    after = {"a_total": 5.0, "g": 3.0, "h_sum": 4.0, "h_count": 3.0, "new_total": 7.0}
    assert risen(before, after) == {"a_total": 3.0, "h_sum": 2.5, "h_count": 2.0, "new_total": 7.0}


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ({"process_start_time_seconds": 100.0, "a_total": 9.0, "g": 0.0}, False),
        ({"process_start_time_seconds": 170.0, "a_total": 9.0, "g": 5.0}, True),
        ({"process_start_time_seconds": 100.0, "a_total": 3.0, "g": 5.0}, True),
    ],
)
def test_a_restart_shows(after, verdict):
    """A start that moved or a counter that fell is a restart; a gauge may fall."""
    before = {"process_start_time_seconds": 100.0, "a_total": 5.0, "g": 5.0}
    assert restarted(before, after) is verdict


def test_labels_of_an_info_series(text):
    """The cache's configuration is in labels."""
    (labels,) = labels_of(text, "vllm:cache_config_info")
    assert (labels["num_gpu_blocks"], labels["block_size"]) == ("40660", "16")
    assert labels["kv_cache_size_tokens"] == "650560"
