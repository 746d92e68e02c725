"""Runs for the report's tests, written through the store's own functions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_llmperf.metrics import figures_of
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.record import ClientHealth, Replay, RequestRecord
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.store.runs import RunFolder, RunHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

HEADER = RunHeader(
    id="20261130-031500-3f2a",
    started_at="2026-11-30T03:15:00+00:00",
    machine=Machine(
        gpu_model="NVIDIA H200",
        gpu_count=1,
        driver_branch="580",
        cuda_major=13,
        mig=False,
        power_limit_w=700,
        cpu_model="Intel(R) Xeon(R) Platinum 8480C",
    ),
    versions={"python": "3.11.7", "pytest": "9.0.1", "pytest-llmperf": "0.1.0"},
    options={"engine": "vllm", "launches": 3, "replays": 3, "baselines": "baselines"},
    command="pytest -m gpu suites",
)
LOG = (
    "(EngineCore pid=750) INFO 11-30 08:04:38 [gpu_worker.py:538] Available KV cache memory: "
    "117.17 GiB\n"
    "(EngineCore pid=750) INFO 11-30 08:04:38 [kv_cache_utils.py:2146] GPU KV cache size: "
    "767,872 tokens\n"
    "(APIServer pid=511) INFO 11-30 08:05:31 [loggers.py:273] Engine 000: Avg prompt throughput: "
    "1854.7 tokens/s, Avg generation throughput: 1278.6 tokens/s, Running: 10 reqs\n"
)
HEALTH = ClientHealth(120_000, 340_000, 900_000, 1.4, 12.1, 0.1)


def server(name: str, *arguments: str, model: str = "Qwen/Qwen3-14B") -> ServerSpec:
    """Return a vLLM server."""
    return ServerSpec.of(name, "vllm", model, arguments, {"HF_HUB_OFFLINE": "1"})


def traffic(name: str, count: int = 64, seed: int = 0) -> Traffic:
    """Return requests of about 512 tokens in and 128 out, 20 ms apart."""
    random = np.random.default_rng(seed)
    spec = TrafficSpec(
        name,
        "random",
        dataset_options=(("input_len", 512), ("output_len", 128)),
        num_prompts=count,
        seed=seed,
        max_concurrency=16,
        request_rate=50.0,
    )
    lengths = random.integers(256, 768, count)
    requests = tuple(
        Request(i, i * 20_000_000, Prompt("x", int(length), int(random.integers(96, 160))))
        for i, length in enumerate(lengths)
    )
    return Traffic(spec, requests, counted_by="Qwen/Qwen3-14B")


def replayed(of: Traffic, *, slower: float = 1.0, seed: int = 0, failed: int = 0) -> Replay:
    """Return a replay in a closed loop of 16: ITL 9 ms and TTFT 280 ms times ``slower``."""
    random = np.random.default_rng(seed)
    free = [7_000_000_000_000] * 16
    records = []
    for request in of.requests:
        slot = int(np.argmin(free))
        sent = free[slot] + 50_000
        asked = request.prompt.output_tokens
        gaps = random.gamma(60, 9.0 / 60, asked) * slower
        gaps[random.random(asked) < 0.004] += 60
        gaps[0] = random.normal(280, 25) * slower
        times = sent + np.cumsum(gaps * 1e6).astype(np.int64)
        done = int(times[-1]) + 200_000
        free[slot] = done
        whole = RequestRecord(
            request.index, sent, sent, tuple(times.tolist()), (1,) * asked, done, asked,
            request.prompt.prompt_tokens, asked, 0, http_status=200, finish_reason="length",
        )  # fmt: skip
        broken = replace(whole, chunk_ns=(), chunk_tokens=(), error="HTTP 503", output_tokens=None)
        records.append(broken if request.index < failed else whole)
    started = f"2026-11-30T03:{20 + seed % 40:02d}:00+00:00"
    return Replay(
        of.spec.name, of.digest, tuple(records), 50.0, 16, "kernel", HEALTH, started,
        counters={"vllm:prompt_tokens_total": 1.0},
    )  # fmt: skip


def facts(*, cold: bool = False, kv_gib: float = 99.27, weights: float = 27.52) -> LaunchFacts:
    """Return what an H200 with a 14B model says of itself."""
    return LaunchFacts(
        engine_version="0.25.1",
        weights_gib=weights,
        kv_gib=kv_gib,
        kv_tokens=round(kv_gib * 6553.4),
        graphs_gib=0.9,
        max_concurrency=kv_gib * 0.8,
        max_model_len=8192,
        startup_s=162.2 if cold else 73.6,
        phases={"load": 12.5, "compile": 30.53 if cold else 6.1, "warm up": 12.0},
        cold=cold,
    )


def found(
    figure: str,
    status: Status,
    value: float,
    reference: float,
    *,
    half: float = 0.012,
    unit: str = "ms",
    reason: str = "",
    noise: str = "pooled",
) -> Finding:
    """Return a finding against ten accepted nights."""
    change = value / reference - 1
    return Finding(
        figure,
        status,
        reason or f"{abs(change):.1%} from 10 accepted nights",
        value=value,
        reference=reference,
        change=change,
        interval=(change - half, change + half),
        smallest_detectable_change=half * 1.8,
        noise=noise,  # type: ignore[arg-type]
        unit=unit,
        launches=3,
        replays=3,
        nights=10,
        tolerance=0.05,
    )


def nights(means: Mapping[str, float]) -> Baseline:
    """Return a baseline of ten nights around these means."""
    random = np.random.default_rng(5)
    made = tuple(
        Night(
            f"2026-11-{19 + day}",
            "gpu-01",
            {name: ((mean * random.normal(1, 0.006),),) for name, mean in means.items()},
        )
        for day in range(10)
    )
    return Baseline(HEADER.machine, "s", "t", "d", {}, {}, made)


@dataclass(frozen=True)
class RunMaker:
    """Writes one run piece by piece."""

    folder: RunFolder

    def measure(
        self,
        campaign: str,
        spec: ServerSpec,
        traffics: Sequence[Traffic],
        *,
        launches: int = 3,
        replays: int = 3,
        slower: float = 1.0,
        invalid: Mapping[tuple[int, int], str] | None = None,
        of: LaunchFacts | None = None,
    ) -> None:
        """Write launches with replays of each traffic."""
        for sent in traffics:
            self.folder.write_traffic(sent)
        for number in range(1, launches + 1):
            launch = self.folder.launch(campaign, spec.name, number)
            launch.log.write_text(LOG * 25)
            launch.write_facts(spec, of or facts(cold=number == 1), "/opt/vllm-0.25.1/bin/vllm")
            for sent in traffics:
                for replay in range(1, replays + 1):
                    why = (invalid or {}).get((number, replay))
                    drift = slower * (1 + 0.004 * math.sin(number))
                    made = replayed(
                        sent, slower=drift, seed=number * 10 + replay, failed=5 if why else 0
                    )
                    launch.write_replay(sent, replay, made, figures_of(made), invalid=why)


def write_night(root: Path) -> RunFolder:
    """Write a night with one of every status, a pair, an invalid replay and a dead launch."""
    folder = RunFolder.create(root, HEADER.id)
    folder.write_header(HEADER)
    run = RunMaker(folder)
    chat, prefix = traffic("chat"), traffic("prefix", seed=1)
    base = server("qwen3-14b", "--max-model-len", "8192")
    awq = server(
        "qwen3-14b-awq", "--max-model-len", "8192", "--quantization", "awq_marlin", "--api-key", "k"
    )
    small = server("qwen3-0.6b", "--enforce-eager", model="Qwen/Qwen3-0.6B")
    run.measure("qwen3-14b", base, [chat, prefix])
    run.measure(
        "qwen3-14b-awq", awq, [chat, prefix], slower=1.07, of=facts(kv_gib=117.17, weights=9.38)
    )
    run.measure(
        "qwen3-0.6b", small, [chat], slower=0.4, launches=2,
        invalid={(2, 1): "5 of 64 requests failed (none may): HTTP 503, 5 times"},
    )  # fmt: skip
    run.measure("qwen3-14b-awq-vs-qwen3-14b", base, [prefix], launches=2, replays=2)
    run.measure(
        "qwen3-14b-awq-vs-qwen3-14b", awq, [prefix], launches=2, replays=2, slower=0.8,
        of=facts(kv_gib=117.17, weights=9.38),
    )  # fmt: skip
    _judge(folder)
    dead = folder.launch("qwen3-14b-tp2", "qwen3-14b-tp2", 1)
    dead.log.write_text(LOG + "torch.OutOfMemoryError: CUDA out of memory. Tried 2.00 GiB.\n")
    folder.note("qwen3-14b-tp2 ended early: the server died before it was ready (exit status 1)")
    return folder


def _judge(folder: RunFolder) -> None:
    means = {"output_tps": 1318.0, "itl.mean": 9.24, "itl.median": 9.0, "ttft.p99": 338.0}
    passed = (
        found("output_tps", Status.PASSED, 1316, 1318.0, unit="tok/s"),
        found("itl.mean", Status.PASSED, 9.25, 9.24),
        found("itl.median", Status.PASSED, 9.012, 9.004),
        found("ttft.p99", Status.PASSED, 341.2, 338.4, half=0.03),
        Finding(
            "ttft.p99", Status.PASSED, "below the limit of < 400 ms", kind="slo", value=341.0,
            reference=400.0, change=341 / 400 - 1, noise="measured", unit="ms", launches=3,
            replays=3,
        ),
        found("kv_tokens", Status.PASSED, 650560, 650560, unit="tokens", noise="exact", half=0),
    )  # fmt: skip
    slower = (
        found(
            "output_tps", Status.REGRESSED, 1233, 1318.0, unit="tok/s",
            reason="6.4 % lower than 10 accepted nights: a loss of at least 4.1 % by the 99.2 % "
            "bound",
        ),
        found(
            "itl.mean", Status.REGRESSED, 9.88, 9.24,
            reason="6.9 % higher than 10 accepted nights: a loss of at least 4.8 % by the 99.2 % "
            "bound",
        ),
        found("itl.median", Status.PASSED, 9.121, 9.004),
        found("ttft.p99", Status.INCONCLUSIVE, 361.3, 338.4, half=0.06, noise="assumed"),
    )  # fmt: skip
    ids = "suites/test_serving.py::test_serving[{}]"
    ratio = replace(
        found("total_tps", Status.PASSED, 8120, 6540, unit="tok/s", reason="at least 1.2 times"),
        kind="ratio",
        nights=0,
        noise="measured",
    )
    nothing = Finding(
        "baseline", Status.NO_BASELINE,
        "nothing stored for this traffic; the nearest differs in its digest: 3f… → 9c…",
    )  # fmt: skip
    better = (
        found(
            "output_tps", Status.IMPROVED, 1390, 1318, unit="tok/s",
            reason="5.5 % higher than 10 accepted nights: a gain of at least 3.3 % by the 99.2 % "
            "bound",
        ),
    )  # fmt: skip
    invalid = Finding(
        "measurement", Status.INVALID,
        "qwen3-0.6b, launch 2, replay 1: 5 of 64 requests failed (none may): HTTP 503, 5 times",
    )  # fmt: skip
    baseline = nights(means)
    for verdict, stored in (
        (Verdict(ids.format("qwen3-14b/chat"), "qwen3-14b", "chat", passed), baseline),
        (Verdict(ids.format("qwen3-14b/prefix"), "qwen3-14b", "prefix", better), baseline),
        (
            Verdict(
                ids.format("qwen3-14b-awq/chat"), "qwen3-14b-awq", "chat", slower,
                caveats=("1 conversation was cut off",),
            ),
            baseline,
        ),
        (Verdict(ids.format("qwen3-14b-awq/prefix"), "qwen3-14b-awq", "prefix", (nothing,)), None),
        (Verdict(ids.format("qwen3-0.6b/chat"), "qwen3-0.6b", "chat", (invalid,)), None),
        (
            Verdict(
                "suites/test_serving.py::test_awq_pays", "qwen3-14b-awq", "prefix", (ratio,),
                against="qwen3-14b",
            ),
            None,
        ),
    ):  # fmt: skip
        said = (
            f"{verdict.status.value}: {verdict.server} on {verdict.traffic}\n  run: .llmperf/runs"
        )
        folder.write_verdict(verdict, said, baseline=stored)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunMaker]:
    """Return a function that begins a run of that id, with changes to its header."""

    def make(run_id: str = "night", **changes: object) -> RunMaker:
        folder = RunFolder.create(tmp_path / "runs", run_id)
        folder.write_header(replace(HEADER, id=run_id, **changes))  # type: ignore[arg-type]
        return RunMaker(folder)

    return make


@pytest.fixture(scope="session")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a whole night's run."""
    folder = write_night(tmp_path_factory.mktemp("night") / "runs")
    folder.finish("exit status 1")
    return folder.path
