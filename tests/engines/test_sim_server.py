"""The simulated server as a process: what clients, the launch and the metrics see of it."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_llmperf.cli.sim import register
from pytest_llmperf.engines.sim import ENGINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

COMMAND = (sys.executable, "-P", "-m", "pytest_llmperf.engines.sim")
QUIET = ("--sim-launch-noise", "0", "--sim-replay-noise", "0")
USAGE = {"include_usage": True, "continuous_usage_stats": True}
READY_TIMEOUT_S = 20.0


class Server:
    """A running process and a client for it."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    def request(
        self, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Return status and body; a body that is asked for is posted as JSON."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, 30)) as client:
            data = None if body is None else json.dumps(body)
            kind = {"content-type": "application/json"}
            client.request(
                "GET" if body is None else "POST", path, data, {**kind, **(headers or {})}
            )
            response = client.getresponse()
            return response.status, response.read()

    def stream(self, path: str, **body: Any) -> tuple[list[Any], list[float]]:
        """Return the events of a stream and the time of each, ``[DONE]`` as text."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, 30)) as client:
            data = json.dumps({"stream": True, "stream_options": USAGE, **body})
            client.request("POST", path, data, {"content-type": "application/json"})
            events, times = [], []
            for line in client.getresponse():
                if line.startswith(b"data: "):
                    times.append(time.monotonic())
                    text = line[6:].strip()
                    events.append("[DONE]" if text == b"[DONE]" else json.loads(text))
            return events, times

    def metrics(self) -> dict[str, float]:
        """Return ``name`` or ``name{finished_reason or le}`` → value."""
        found = {}
        page = self.request("/metrics")[1].decode()
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                label = sample.labels.get("finished_reason") or sample.labels.get("le")
                found[f"{sample.name}{{{label}}}" if label else sample.name] = sample.value
        return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start servers on free ports; they are gone when the test is."""
    processes: list[subprocess.Popen[bytes]] = []

    def launch(*arguments: str, key: str | None = None, model: str = "Qwen/Qwen3-14B") -> Server:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        log = tmp_path / f"server-{port}.log"
        environment = {name: value for name, value in os.environ.items() if name != "VLLM_API_KEY"}
        environment |= {"VLLM_API_KEY": key} if key else {}
        words = (*COMMAND, model, "--port", str(port), *QUIET, *arguments)
        with log.open("wb") as output:
            process = subprocess.Popen(words, stdout=output, stderr=output, env=environment)
        processes.append(process)
        server = Server(process, port, log)
        wait_until(lambda: is_ready(server), "the server did not get ready")
        return server

    yield launch
    for process in processes:
        process.kill()
        process.wait()


def is_ready(server: Server) -> bool:
    assert server.process.poll() is None, server.log.read_text()
    with contextlib.suppress(ConnectionError):
        return server.request("/health")[0] == 200
    return False


def wait_until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.02)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Run the calls at once, each in a thread, and return their results."""
    results: list[Any] = [None] * len(calls)

    def run(index: int, call: Callable[[], Any]) -> None:
        results[index] = call()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def run_to_end(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*COMMAND, *arguments), capture_output=True, text=True, timeout=30, check=False
    )


def test_a_stream_has_exactly_the_tokens_asked_for(start: Callable[..., Server]):
    """Usage counts 1, 2, 3; then a usage without choices, then the end; chat's role is no token."""
    server = start("--sim-step-ms", "1", "--max-model-len", "8192")
    events, _ = server.stream("/v1/completions", prompt=[1] * 50, max_tokens=3, unknown_field=1)
    chat, _ = server.stream(
        "/v1/chat/completions", messages=[{"role": "user", "content": "hi"}], max_tokens=2
    )
    counts = [event["usage"]["completion_tokens"] for event in events[:-1]]
    chat_counts = [event["usage"]["completion_tokens"] for event in chat[:-1]]
    assert (counts, chat_counts) == ([1, 2, 3, 3], [0, 1, 2, 2])
    assert (events[-2]["choices"], events[-1], chat[-1]) == ([], "[DONE]", "[DONE]")
    assert events[0]["usage"]["prompt_tokens"] == 50
    assert [event["choices"][0]["finish_reason"] for event in events[:3]] == [None, None, "length"]


def test_the_metrics_add_up(start: Callable[..., Server]):
    """Counters and histograms agree with what was asked, and with each other."""
    server = start("--sim-step-ms", "1", "--served-model-name", "q")
    for tokens in (5, 7):
        status, body = server.request("/v1/completions", {"prompt": [1] * 10, "max_tokens": tokens})
        assert (status, json.loads(body)["usage"]["completion_tokens"]) == (200, tokens)
    found = server.metrics()
    expected = {
        "vllm:prompt_tokens_total": 20,
        "vllm:generation_tokens_total": 12,
        "vllm:request_success_total{length}": 2,
        "vllm:request_success_total{stop}": 0,
        "vllm:num_requests_running": 0,
        "vllm:kv_cache_usage_perc": 0,
        "vllm:num_preemptions_total": 0,
        "vllm:prefix_cache_queries_total": 20,
        "vllm:prefix_cache_hits_total": 0,
        "vllm:prompt_tokens_cached_total": 0,
        "vllm:time_to_first_token_seconds_count": 2,
        "vllm:inter_token_latency_seconds_count": 10,
        "vllm:inter_token_latency_seconds_bucket{+Inf}": 10,
        "vllm:iteration_tokens_total_count": 12,
        "vllm:iteration_tokens_total_sum": 32,
        "vllm:e2e_request_latency_seconds_count": 2,
        "vllm:request_generation_tokens_sum": 12,
    }
    assert {name: found[name] for name in expected} == expected
    phases = ("queue", "prefill", "decode")
    parts = sum(found[f"vllm:request_{phase}_time_seconds_sum"] for phase in phases)
    assert parts == pytest.approx(found["vllm:e2e_request_latency_seconds_sum"], abs=1e-6)
    assert time.time() - found["process_start_time_seconds"] < 60


def test_requests_at_once_share_their_steps(start: Callable[..., Server]):
    """Two answers of 30 tokens take little more than 30 steps together, not 60."""
    server = start("--sim-step-ms", "10")
    body = {"prompt": [1] * 10, "max_tokens": 30}
    statuses = [
        status for status, _ in together(*[lambda: server.request("/v1/completions", body)] * 2)
    ]
    found = server.metrics()
    assert statuses == [200, 200]
    assert found["vllm:generation_tokens_total"] == 60
    assert 30 <= found["vllm:iteration_tokens_total_count"] < 50


def test_a_slowdown_of_ten_percent_is_ten_percent(start: Callable[..., Server]):
    """The median ITL of 20 ms a step against the same with ``--slowdown 1.10``."""
    servers = [start("--sim-step-ms", "20"), start("--sim-step-ms", "20", "--slowdown", "1.10")]

    def median_itl(server: Server) -> float:
        _, times = server.stream("/v1/completions", prompt=[1] * 10, max_tokens=60)
        return statistics.median(b - a for a, b in itertools.pairwise(times[:60]))

    base, slow = together(*[lambda server=server: median_itl(server) for server in servers])
    assert slow / base == pytest.approx(1.10, abs=0.02)


def test_what_does_not_fit_into_the_kv_cache_waits(start: Callable[..., Server]):
    """64 tokens of cache, 32 held: a prompt of 40 waits, and /metrics says so."""
    server = start("--sim-step-ms", "20", "--sim-kv-tokens", "64", "--max-model-len", "64")

    def ask(prompt: int, tokens: int) -> Callable[[], tuple[int, bytes]]:
        body = {"prompt": [prompt] * prompt, "max_tokens": tokens}  # two that share no prefix
        return lambda: server.request("/v1/completions", body)

    def watch() -> tuple[int, bytes]:
        wait_until(lambda: server.metrics()["vllm:num_requests_running"] == 1, "none runs")
        answer, _ = together(ask(40, 2), lambda: wait_until(is_queued, "none waits"))
        status: int = answer[0]
        return status, answer[1]

    def is_queued() -> bool:
        found = server.metrics()
        return found["vllm:num_requests_waiting"] == 1 and found["vllm:kv_cache_usage_perc"] >= 0.5

    assert [status for status, _ in together(ask(32, 32), watch)] == [200, 200]
    found = server.metrics()
    assert found["vllm:request_queue_time_seconds_sum"] > 0.1
    assert (found["vllm:generation_tokens_total"], found["vllm:kv_cache_usage_perc"]) == (34, 0)


def test_who_is_not_planned_for_yet_is_counted_as_waiting(start: Callable[..., Server]):
    """A step that never ends, and a second request: 1 runs and 1 waits, until its client goes."""
    server = start("--sim-fault", "stall@2")

    def ask(client: http.client.HTTPConnection) -> None:
        body = json.dumps({"prompt": [1] * 10, "max_tokens": 100, "stream": True})
        client.request("POST", "/v1/completions", body, {"content-type": "application/json"})
        client.getresponse()

    def seen() -> list[float]:
        names = ("num_requests_running", "num_requests_waiting", "request_success_total{abort}")
        found = server.metrics()
        return [found[f"vllm:{name}"] for name in names]

    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, 30)) as first:
        ask(first)
        second = http.client.HTTPConnection("127.0.0.1", server.port, 30)
        with contextlib.closing(second):
            ask(second)
            assert seen() == [1, 1, 0]
            assert json.loads(server.request("/load")[1]) == {"server_load": 2}
        wait_until(lambda: seen() == [1, 0, 1], "the request that waited was not aborted")


def test_a_client_that_goes_away_frees_its_place(start: Callable[..., Server]):
    """Its request is aborted, counted as such, and its KV blocks are free."""
    server = start("--sim-step-ms", "10")
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as client:
        body = json.dumps({"prompt": [1] * 10, "max_tokens": 10_000, "stream": True})
        client.request("POST", "/v1/completions", body, {"content-type": "application/json"})
        assert client.getresponse().readline().startswith(b"data: ")
    aborted = "vllm:request_success_total{abort}"
    wait_until(lambda: server.metrics()[aborted] == 1, "the request was not aborted")
    assert server.metrics()["vllm:kv_cache_usage_perc"] == 0


def test_the_key_guards_what_vllm_guards(start: Callable[..., Server]):
    """401 under /v1 without it or with a wrong one; health, metrics and /tokenize are open."""
    server = start(key="right")

    def status(path: str, key: str | None, body: Any = None) -> int:
        return server.request(path, body, {"authorization": f"Bearer {key}"} if key else {})[0]

    assert [status("/v1/models", key) for key in (None, "wrong", "right")] == [401, 401, 200]
    assert status("/v1/completions", None, {"prompt": "x"}) == 401
    assert [status(path, None) for path in ("/health", "/metrics")] == [200, 200]
    assert status("/tokenize", None, {"prompt": "x"}) == 200


def test_errors_have_vllms_statuses_and_shapes(start: Callable[..., Server]):
    """Unknown model and path 404, wrong method 405, bad bodies 400, each with its JSON."""
    server = start("--served-model-name", "q", "--max-model-len", "100")

    def error(path: str, body: Any) -> tuple[int, Any]:
        status, data = server.request(path, body)
        return status, json.loads(data).get("error", json.loads(data))

    status, unknown = error("/v1/completions", {"model": "nope", "prompt": "x"})
    assert (status, unknown) == (
        404,
        {
            "message": "The model `nope` does not exist. Valid aliases: q.",
            "type": "NotFoundError",
            "param": "model",
            "code": 404,
        },
    )
    status, too_long = error("/v1/completions", {"model": "q", "prompt": [1] * 101})
    assert (status, too_long["type"], too_long["code"]) == (400, "BadRequestError", 400)
    assert error("/nowhere", None) == (404, {"detail": "Not Found"})
    assert error("/v1/completions", None) == (405, {"detail": "Method Not Allowed"})
    assert error("/v1/completions", [1])[0] == 400
    text = {"content-type": "text/plain"}
    assert server.request("/v1/completions", {"prompt": "x"}, text)[0] == 400
    assert server.request("/health")[0] == 200


def test_the_log_is_read_as_vllms(start: Callable[..., Server]):
    """Memory and lengths come out of the parser; the log says that it is simulated, and what."""
    server = start(
        *("--max-model-len", "8192", "--sim-startup-s", "0.2", "--load-format", "dummy"),
    )
    log = server.log.read_text()
    facts = ENGINE.facts(log)
    assert facts.engine_version == "0.25.1-sim"
    assert facts.weights_gib == pytest.approx(27.52, abs=0.02)
    assert facts.kv_gib == pytest.approx(99.27, abs=0.05)
    assert facts.kv_tokens == pytest.approx(650_560, rel=1e-3)
    assert (facts.max_model_len, facts.cold) == (8192, False)
    assert facts.max_concurrency == pytest.approx(79.41, rel=1e-3)
    assert facts.phases["init_engine"] == pytest.approx(0.18)
    assert "SIMULATED: 1 x H200" in log
    assert "'load_format': 'dummy'" in log
    assert "Asynchronous scheduling is enabled." in log


def test_the_log_shows_what_is_simulated(start: Callable[..., Server]):
    """GPUs and their interconnect, the drafts and the slots that they take."""
    draft = '{"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 4}'
    server = start("-tp", "2", "--sim-interconnect", "pcie", "-sc", draft)
    log = server.log.read_text()
    assert "SIMULATED: 2 x H200 over PCIe 5" in log
    assert (
        "SpeculativeConfig(method='draft_model', model='Qwen/Qwen3-0.6B', num_spec_tokens=4)" in log
    )
    assert "max_num_scheduled_tokens is set to 7168" in log
    assert "Async scheduling not supported with draft_model-based speculative decoding" in log
    assert "Asynchronous scheduling is disabled." in log
    assert ENGINE.facts(log).weights_gib == pytest.approx(28.63 / 2, abs=0.02)


def test_a_step_takes_the_gpus_time(start: Callable[..., Server]):
    """One answer on an L40S: the weights alone, 28 GB at 85 % of 864 GB/s, are 38 ms a token."""
    server = start("--sim-gpu", "l40s", "--max-model-len", "8192")
    _, times = server.stream("/v1/completions", prompt=[1] * 10, max_tokens=20)
    gaps = [b - a for a, b in itertools.pairwise(times[:20])]
    assert statistics.median(gaps) == pytest.approx(0.0405, rel=0.05)


def test_drafts_come_several_at_once(start: Callable[..., Server]):
    """All of four drafts are right: after the first token each step gives five."""
    config = '{"method": "draft_model", "model": "Q-0.6B", "num_speculative_tokens": 4}'
    server = start("-sc", config, "--sim-acceptance", "1", "--sim-step-ms", "1")
    events, _ = server.stream("/v1/completions", prompt=[1] * 10, max_tokens=21)
    counts = [event["usage"]["completion_tokens"] for event in events[:-1]]
    assert counts == [1, 6, 11, 16, 21, 21]


def test_sigterm_ends_it_at_once_with_a_stream_open(start: Callable[..., Server]):
    """Exit status 0; the stream is cut without its end, so that nobody takes it for whole."""
    server = start("--sim-step-ms", "20")

    def stream() -> bytes:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, 30)) as client:
            body = json.dumps({"prompt": "x", "max_tokens": 10_000, "stream": True})
            client.request("POST", "/v1/completions", body, {"content-type": "application/json"})
            try:
                return client.getresponse().read()
            except http.client.IncompleteRead as cut:
                return cut.partial

    def stop() -> int:
        wait_until(lambda: server.metrics()["vllm:generation_tokens_total"] > 2, "no tokens")
        server.process.send_signal(signal.SIGTERM)
        return server.process.wait(timeout=5)

    data, status = together(stream, stop)
    assert status == 0
    assert data.startswith(b"data: ")
    assert b"[DONE]" not in data


def test_a_bad_value_ends_it_with_status_2():
    """And says which argument on the error stream, as vLLM does."""
    ended = run_to_end("M", "--max-model-len", "long")
    assert ended.returncode == 2
    assert "error: argument --max-model-len: invalid value: 'long'" in ended.stderr
    assert "--max-model-len" in (ENGINE.failure(ended.stderr) or "")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("/no/such/folder",), "specified: '/no/such/folder'"),
        (("M-14B", "--gpu-memory-utilization", "0.1"), "No available memory for the cache"),
    ],
)
def test_a_start_that_fails_says_why_in_the_log(arguments: tuple[str, ...], reason: str):
    """Exit status 1, and the log's reader finds the cause."""
    ended = run_to_end(*arguments, "--port", "0")
    assert ended.returncode == 1
    assert reason in (ENGINE.failure(ended.stdout) or "")


def test_a_start_out_of_memory_is_a_start_that_fails():
    """The fault ends it with status 1; the log's reader finds CUDA's words."""
    ended = run_to_end("M-14B", "--sim-fault", "start-oom", "--port", "0")
    assert ended.returncode == 1
    assert "CUDA out of memory" in (ENGINE.failure(ended.stdout) or "")


def test_a_stuck_start_never_gets_ready_and_can_be_stopped(tmp_path: Path):
    """It loads for ever, does not listen, and SIGTERM ends it."""
    log = tmp_path / "log"
    with log.open("wb") as output:
        words = (*COMMAND, "M-14B", "--port", "0", "--sim-fault", "stuck-start")
        process = subprocess.Popen(words, stdout=output, stderr=output)
    try:
        wait_until(lambda: "Loading model" in log.read_text(), "it did not begin to load")
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) == 0
    finally:
        process.kill()
    assert "Application startup complete" not in log.read_text()


def test_sigterm_can_be_ignored(start: Callable[..., Server]):
    """The fault that a launch has to cope with: it goes on serving."""
    server = start("--sim-fault", "ignore-sigterm", "--sim-step-ms", "1")
    server.process.send_signal(signal.SIGTERM)
    status, _ = server.request("/v1/completions", {"prompt": "x", "max_tokens": 3})
    assert status == 200
    assert server.process.poll() is None


def test_a_taken_port_ends_it(start: Callable[..., Server]):
    """The address in use is named, before anything is loaded."""
    server = start()
    ended = run_to_end("M", "--port", str(server.port))
    assert ended.returncode == 1
    assert "Address already in use" in (ENGINE.failure(ended.stdout) or "")


def test_help_says_what_it_is():
    """Simulated, and no measurement of anything."""
    ended = run_to_end("--help")
    assert ended.returncode == 0
    assert "SIMULATED" in ended.stdout
    assert "never about a model" in ended.stdout
    assert "--async-scheduling, --no-async-scheduling" in ended.stdout


def test_the_command_hands_every_word_to_the_engine():
    """Options too, ``--help`` included: they are the engine's."""
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    options = parser.parse_args(["sim", "--help", "M", "--port", "1", "--sim-step-ms=2"])
    assert options.arguments == ["--help", "M", "--port", "1", "--sim-step-ms=2"]
    assert callable(options.run)
