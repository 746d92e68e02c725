from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmperf.cli import main
from pytest_llmperf.cli._bench_flags import add_flags, target_of, traffic_spec
from pytest_llmperf.cli._bench_result import require_folder, result_of, save
from pytest_llmperf.cli._bench_table import table
from pytest_llmperf.errors import LlmPerfError
from pytest_llmperf.model.record import ClientHealth, Replay, RequestRecord
from pytest_llmperf.model.traffic import Prompt, Request, Traffic
from tests.replay.scripted import CHUNKED as CHUNKED_HEAD
from tests.replay.scripted import Client, Script, answer, chunk, event, scripted

if TYPE_CHECKING:
    from pathlib import Path

VLLM_KEYS = [
    "date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts",
    "request_rate", "burstiness", "max_concurrency", "duration", "completed", "failed",
    "total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput",
    "output_throughput", "total_token_throughput", "max_output_tokens_per_s",
    "max_concurrent_requests", "rtfx", "mean_ttft_ms", "median_ttft_ms", "std_ttft_ms",
    "p99_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "std_tpot_ms", "p99_tpot_ms",
    "mean_itl_ms", "median_itl_ms", "std_itl_ms", "p99_itl_ms",
]  # fmt: skip
"""The keys of a result of vLLM 0.25.1 against an H200, in its order."""

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
MS = 1_000_000


def flags(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flags(parser)
    return parser.parse_args(words)


def serving(*parts: bytes, models: bytes = b"") -> Script:
    """Answer posts with these parts, /v1/models with a list and all other questions with 404."""

    def script(client: Client) -> None:
        while (request := client.request()) is not None:
            if request.startswith(b"POST"):
                client.send(*parts)
            elif models and request.startswith(b"GET /v1/models "):
                head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(models)
                client.send(head + models)
            else:
                client.send(NOT_FOUND)

    return script


def records() -> tuple[RequestRecord, ...]:
    """Three requests.

    0: sent at 0, tokens at 100, 120 and 140 ms. 1: due at 0 but sent at 50, tokens at 250 and
    (two) at 290 ms. 2: refused after 1 ms.
    """
    return (
        RequestRecord(0, 0, 0, (100 * MS, 120 * MS, 140 * MS), (1, 1, 1), 141 * MS, 3, 10, 3),
        RequestRecord(1, 0, 50 * MS, (250 * MS, 290 * MS), (1, 2), 291 * MS, 3, 20, 3),
        RequestRecord(2, 0, 60 * MS, (), (), 61 * MS, 3, error="HTTP 429: full", http_status=429),
    )


def replayed(**values: Any) -> Replay:
    health = ClientHealth(2 * MS, 3 * MS, 4 * MS, 0.1, 1.0, 0.2)
    made = Replay("random", "d1", records(), None, None, "kernel", health, "2026-11-30T00:00:00")
    return replace(made, **values)


def literal() -> Traffic:
    spec = traffic_spec(flags("--num-prompts", "3"))
    return Traffic(spec, (Request(0, 0, Prompt("x", 1, 3)),), "token ids", ("a note",))


def result(*words: str, **values: Any) -> dict[str, Any]:
    return result_of(flags(*words), literal(), replayed(**values), "models/qwen", "20261130-101112")


# --- flags


def test_flags_become_a_recipe() -> None:
    """Every traffic flag of vLLM's has its place in the spec."""
    spec = traffic_spec(
        flags(
            "--dataset-name", "prefix_repetition", "--prefix-repetition-prefix-len", "7",
            "--prefix-repetition-suffix-len", "8", "--prefix-repetition-num-prefixes", "2",
            "--prefix-repetition-output-len", "9", "--num-prompts", "6", "--seed", "5",
            "--request-rate", "4", "--burstiness", "0.5", "--max-concurrency", "3",
            "--temperature", "0.7", "--extra-body", '{"top_k": 1}', "--header", "a=b", "c=d=e",
            "--num-warmups", "2", "--ignore-eos",
        )
    )  # fmt: skip
    assert dict(spec.dataset_options) | {"token_ids": None} == {
        "prefix_len": 7, "suffix_len": 8, "num_prefixes": 2, "output_len": 9, "token_ids": None,
    }  # fmt: skip
    assert (spec.num_prompts, spec.seed, spec.request_rate, spec.max_concurrency) == (6, 5, 4.0, 3)
    assert (spec.arrival, spec.arrival_options) == ("poisson", (("burstiness", 0.5),))
    assert (spec.temperature, spec.ignore_eos, spec.num_warmups) == (0.7, True, 2)
    assert (spec.extra_body, spec.headers) == ((("top_k", 1),), (("a", "b"), ("c", "d=e")))
    assert spec.endpoint == "completions"


def test_the_defaults_are_vllms_and_greedy() -> None:
    """random, 1,000 prompts, all at once; the output length is forced and nothing is sampled."""
    spec = traffic_spec(flags())
    assert (spec.dataset, spec.num_prompts, spec.request_rate) == ("random", 1000, float("inf"))
    assert (spec.ignore_eos, spec.temperature, spec.warmups) == (True, 0.0, 0)
    assert dict(spec.dataset_options)["input_len"] == 1024


def test_a_ramp_up_is_an_arrival_process() -> None:
    """Its three flags belong together."""
    ramp = ("--ramp-up-strategy", "linear", "--ramp-up-start-rps", "1", "--ramp-up-end-rps", "9")
    spec = traffic_spec(flags(*ramp))
    assert spec.arrival == "ramp_up"
    assert dict(spec.arrival_options) == {
        "burstiness": 1.0, "strategy": "linear", "start_rps": 1, "end_rps": 9,
    }  # fmt: skip
    with pytest.raises(LlmPerfError, match="--ramp-up-end-rps"):
        traffic_spec(flags(*ramp[:4]))


def test_sharegpt_takes_a_file_and_a_length() -> None:
    """A chat backend makes chat traffic."""
    spec = traffic_spec(
        flags("--backend", "openai-chat", "--dataset-name", "sharegpt", "--dataset-path", "x.json",
              "--sharegpt-output-len", "64")
    )  # fmt: skip
    assert spec.endpoint == "chat"
    assert {"path": "x.json", "output_len": 64}.items() <= dict(spec.dataset_options).items()
    assert not spec.ignore_eos


@pytest.mark.parametrize(
    ("words", "url", "model"),
    [
        ((), "http://127.0.0.1:8000", ""),
        (("--host", "::1", "--port", "9", "--model", "m"), "http://[::1]:9", "m"),
        (("--base-url", "http://gpu:8080/api/", "--model", "m"), "http://gpu:8080/api", "m"),
        (
            ("--base-url", "http://gpu", "--endpoint", "/x/v1/completions", "--model", "m",
             "--served-model-name", "s"),
            "http://gpu:80/x",
            "s",
        ),
    ],
)  # fmt: skip
def test_the_target(
    words: tuple[str, ...], url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A URL or host and port, what stands before /v1, the name to send, the key's variable."""
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    target = target_of(flags(*words))
    assert (target.base_url, target.model, target.api_key) == (url, model, "s3cret")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--base-url", "https://gpu"), "only plain HTTP"),
        (("--backend", "openai-chat", "--endpoint", "/v1/completions"), "/v1/chat/completions"),
    ],
)
def test_a_target_that_cannot_be_is_refused(words: tuple[str, ...], message: str) -> None:
    """TLS in the measured path, an endpoint that is not the backend's."""
    with pytest.raises(LlmPerfError, match=message):
        target_of(flags(*words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--header", "novalue"), "KEY=VALUE"),
        (("--extra-body", "[1]"), "not a JSON object"),
        (("--extra-body", "{"), "not JSON"),
        (("--goodput", "itl:5"), "ttft, tpot or e2el"),
        (("--goodput", "ttft:soon"), "not a number"),
        (("--percentile-metrics", "ttft,foo"), "unknown metric 'foo'. Known: ttft, tpot"),
        (("--metric-percentiles", "101"), "not a list of percentiles"),
        (("--backend", "tgi"), "invalid choice"),
    ],
)
def test_a_flag_that_cannot_be_read_says_what_is_wanted(
    words: tuple[str, ...], message: str
) -> None:
    """Also what vLLM's bench passes over in silence, such as an unknown metric."""
    with pytest.raises(argparse.ArgumentError, match=message):
        flags(*words)


# --- the result


def test_the_result_has_vllms_keys_in_vllms_order() -> None:
    """Scripts that read that file read ours."""
    keys = list(result())
    assert [key for key in keys if key in VLLM_KEYS] == VLLM_KEYS
    assert set(keys) - set(VLLM_KEYS) == {"latencies", "queue_times", "llmperf"}


def test_the_figures_are_those_of_the_requests_that_succeeded() -> None:
    """6 tokens in 290 ms; TTFT 100 and 200; ITL 20, 20, 20, 20; TPOT 20 and 20."""
    found = result("--metric-percentiles", "50,99.9", "--metadata", "gpu=h200")
    assert found["gpu"] == "h200"
    assert (found["completed"], found["failed"], found["num_prompts"]) == (2, 1, 3)
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (30, 6)
    assert found["duration"] == pytest.approx(0.29)
    assert found["output_throughput"] == pytest.approx(6 / 0.29)
    assert found["total_token_throughput"] == pytest.approx(36 / 0.29)
    assert found["request_throughput"] == pytest.approx(2 / 0.29)
    assert (found["mean_ttft_ms"], found["median_ttft_ms"], found["std_ttft_ms"]) == (150, 150, 50)
    assert found["p50_ttft_ms"] == 150
    assert found["p99.9_ttft_ms"] == pytest.approx(199.9)
    assert (found["mean_itl_ms"], found["mean_tpot_ms"]) == (20, 20)
    assert found["max_output_tokens_per_s"] == 6
    assert found["max_concurrent_requests"] == 3
    assert found["latencies"] == [0.14, 0.24, None]
    assert found["queue_times"] == [0.0, 0.05, 0.06]
    assert found["request_rate"] == "inf"
    assert found["llmperf"]["errors"] == {"HTTP 429: full": 1}
    assert found["llmperf"]["clock"] == "kernel"
    assert found["llmperf"]["health"]["send_lag_max_ns"] == 3 * MS
    assert found["llmperf"]["notes"] == ["a note"]
    json.dumps(found)


def test_the_clients_queue_can_be_asked_for() -> None:
    """client_queue_time 0 and 50 ms; with it, end to end is 140 and 290 ms."""
    found = result("--percentile-metrics", "e2el_including_client_queue,client_queue_time,e2el")
    assert [key for key in found if key.startswith("mean_")] == [
        "mean_e2el_ms", "mean_client_queue_time_ms", "mean_e2el_including_client_queue_ms",
    ]  # fmt: skip
    assert found["mean_e2el_ms"] == 190
    assert found["mean_client_queue_time_ms"] == 25
    assert found["mean_e2el_including_client_queue_ms"] == 215


def test_goodput_counts_requests_that_met_every_limit() -> None:
    """Only the first has its token within 150 ms; a failed request never meets a limit."""
    assert result("--goodput", "ttft:150", "tpot:20")["request_goodput"] == pytest.approx(1 / 0.29)
    assert result()["request_goodput"] is None


def test_what_nothing_brought_is_null_and_not_0() -> None:
    """All requests failed: no latency and no throughput is made up."""
    found = result(records=records()[2:])
    assert (found["completed"], found["failed"], found["total_output_tokens"]) == (0, 1, 0)
    for key in ("duration", "output_throughput", "mean_ttft_ms", "p99_itl_ms"):
        assert found[key] is None


def test_speculation_is_read_from_the_servers_counters() -> None:
    """100 drafts of 4 tokens, 200 accepted: half of them, 3 tokens a step."""
    counters = {
        "vllm:spec_decode_num_drafts_total": 100.0,
        "vllm:spec_decode_num_draft_tokens_total": 400.0,
        "vllm:spec_decode_num_accepted_tokens_total": 200.0,
    }
    found = result(counters=counters)
    assert found["spec_decode_acceptance_rate"] == 50.0
    assert found["spec_decode_acceptance_length"] == 3.0
    assert found["spec_decode_num_drafts"] == 100
    assert "spec_decode_num_drafts" not in result()


def test_the_table_is_vllms_and_more() -> None:
    """The lines that scripts look for, then what the client knows of itself."""
    options = flags()
    lines = table(result(), options, replayed()).split("\n")
    assert lines[0] == "============ Serving Benchmark Result ============"
    assert "Successful requests:                     2" in lines
    assert "Failed requests:                         1" in lines
    assert "---------------Time to First Token----------------" in lines
    assert "P99 TTFT (ms):                           199.00" in lines
    assert "Median TTFT from due time (ms):          175.00" in lines
    assert "Clock:                                   kernel" in lines
    assert "Note: a note" in lines


def test_the_file_has_vllms_name(tmp_path: Path) -> None:
    """Label or backend, rate, concurrency, the model's last part, the date."""
    where = ("--result-dir", str(tmp_path / "new"))
    require_folder(flags(*where))
    words = ("--max-concurrency", "8", "--request-rate", "4", *where)
    path = save(result(*words), flags(*words))
    assert path.name == "vllm-4.0qps-concurrency8-qwen-20261130-101112.json"
    ramp = ("--ramp-up-strategy", "linear", "--ramp-up-start-rps", "1", "--ramp-up-end-rps", "9")
    words = ("--label", "nightly", *ramp, *where)
    path = save(result(*words), flags(*words))
    assert path.name == "nightly-ramp-up-linear-1qps-9qps-qwen-20261130-101112.json"


def test_a_result_that_could_not_be_saved_is_told_before_the_measurement(tmp_path: Path) -> None:
    """A file stands where the folder should: nothing is sent."""
    (tmp_path / "file").touch()
    with pytest.raises(LlmPerfError, match=r"--result-dir .*file"):
        require_folder(flags("--result-dir", str(tmp_path / "file")))


def test_results_can_be_appended(tmp_path: Path) -> None:
    """One object a line."""
    words = ("--append-result", "--result-dir", str(tmp_path), "--result-filename", "all.json")
    for _ in range(2):
        save(result(*words), flags(*words))
    lines = (tmp_path / "all.json").read_text().split("\n")
    assert [json.loads(line)["completed"] for line in lines] == [2, 2]


# --- the whole command


def test_bench_measures_and_saves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against a server that lists its model: the name is found, all succeed, status 0."""
    models = b'{"object": "list", "data": [{"id": "served"}]}'
    with scripted(serving(answer(3), models=models)) as server:
        status = main(
            ["bench", "--base-url", server.target.base_url, "--random-input-len", "5",
             "--random-output-len", "3", "--num-prompts", "4", "--num-warmups", "1",
             "--max-concurrency", "2", "--save-result", "--result-dir", str(tmp_path),
             "--result-filename", "r.json"]
        )  # fmt: skip
        bodies = [
            json.loads(request.partition(b"\r\n\r\n")[2])
            for request in server.requests
            if request.startswith(b"POST /v1/completions")
        ]
    assert status == 0
    assert {body["model"] for body in bodies} == {"served"}
    salts = {body["cache_salt"] for body in bodies}
    assert len(bodies) == 5
    assert len(salts) == 2  # the warm-up's and the replay's
    found = json.loads((tmp_path / "r.json").read_text())
    assert (found["completed"], found["total_output_tokens"]) == (4, 12)
    assert found["model_id"] == "served"
    assert "Successful requests:                     4" in capsys.readouterr().out


def test_failed_requests_make_the_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two tokens of three: the figures are shown, and what is wrong with them is said."""
    short = CHUNKED_HEAD + chunk(event(2)) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    with scripted(serving(short)) as server:
        status = main(
            ["bench", "--port", str(server.port), "--model", "m", "--random-input-len", "5",
             "--random-output-len", "3", "--num-prompts", "2", "--save-result",
             "--result-dir", str(tmp_path), "--result-filename", "r.json"]
        )  # fmt: skip
    assert status == 1
    assert "2 of 2 requests failed" in capsys.readouterr().err
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["llmperf"]["errors"] == {"incomplete: 2 of 3 tokens": 2}


def test_no_server_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was measured; the address is said."""
    with scripted(serving()) as server:
        port = server.port
    words = ["--random-input-len", "5", "--num-prompts", "2", "--model", "m"]
    assert main(["bench", "--port", str(port), *words]) == 2
    assert f"127.0.0.1:{port}" in capsys.readouterr().err
