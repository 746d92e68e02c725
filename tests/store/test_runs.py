"""The folder of a run: all of it comes back, half of it is readable, secrets are not in it."""

from __future__ import annotations

import json
import math
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from pytest_llmperf.errors import SpecError, StoreError
from pytest_llmperf.gate import judge_values
from pytest_llmperf.model.answers import Answer, Answers
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.record import ClientHealth, Replay, RequestRecord
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec, freeze
from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.store.runs import (
    NightMean,
    RunFolder,
    RunHeader,
    list_runs,
    load_run,
    read_replay,
)

MACHINE = Machine(gpu_model="NVIDIA H200", gpu_count=1, driver_branch="580", cuda_major=13)
HEADER = RunHeader(
    id="20261130-101500-3f2a",
    started_at="2026-11-30T10:15:00+00:00",
    machine=MACHINE,
    versions={"vllm": "0.25.1", "pytest-llmperf": "0.1.0"},
    options={"engine": "vllm", "launches": 3, "budget": None},
    command="pytest -m gpu",
)
SPEC = ServerSpec.of(
    "qwen3-14b", "vllm", "Qwen/Qwen3-14B", ["--max-model-len", "8192"], {"OMP_NUM_THREADS": "4"}
)
FACTS = LaunchFacts(
    engine_version="0.25.1",
    weights_gib=27.52,
    kv_gib=99.27,
    kv_tokens=650560,
    max_concurrency=79.41,
    startup_s=162.2,
    phases={"load": 12.5, "compile": 30.53},
    cold=True,
)
CHAT = TrafficSpec(
    "chat",
    "random",
    dataset_options=(("input_len", 512), ("ranges", (0.5, 1.5))),
    num_prompts=2,
    request_rate=10.0,
    arrival_options=(("burstiness", 0.5),),
    ignore_eos=False,
    stop=("\n\n", "###"),
    sampling=(("seed", 1), ("top_p", 0.9)),
    extra_body=(("top_k", 1),),
    headers=(("x-team", "serving"),),
    max_error_rate=0.5,
)
TRAFFIC = Traffic(
    CHAT,
    (
        Request(0, 0, Prompt("Why is the sky blue?", 6, 3)),
        Request(1, 100_000_000, Prompt((1, 2, 3, 4), 4, 2)),
    ),
    counted_by="Qwen/Qwen3-14B",
    notes=("1 conversation was cut off",),
)
REPLAY = Replay(
    traffic="chat",
    digest=TRAFFIC.digest,
    records=(
        RequestRecord(
            0, 1_000, 1_100, (50_001_100, 70_001_100), (1, 2), 70_001_200, 3, 6, 3, 0,
            http_status=200, finish_reason="length",
        ),
        RequestRecord(1, 100_001_000, None, (), (), None, 2, error="connection refused"),
    ),
    offered_rate=10.0,
    max_concurrency=None,
    clock="kernel",
    health=ClientHealth(120_000, 340_000, 900_000, 0.25, 1.5, 0.1, reconnects=1),
    started_at="2026-11-30T10:17:42+00:00",
    counters={"vllm:prompt_tokens_total": 10.0, "vllm:generation_tokens_total": 3.0},
)  # fmt: skip
FINDING = Finding(
    figure="output_tps",
    status=Status.REGRESSED,
    reason="6.6 % less than the baseline",
    value=1311.0,
    reference=1403.0,
    change=-0.0656,
    interval=(-0.074, -math.inf),
    smallest_detectable_change=0.021,
    noise="pooled",
    unit="tok/s",
    launches=3,
    replays=9,
    nights=10,
)
VERDICT = Verdict(
    "suites/test_serving.py::test_serving[qwen3-14b/chat]",
    "qwen3-14b",
    "chat",
    (FINDING, Finding("ttft.p99", Status.PASSED, "below 200 ms", kind="slo", value=180.5)),
    caveats=("noise assumed",),
)
BASELINE = Baseline(
    machine=MACHINE,
    server_name="qwen3-14b",
    traffic_name="chat",
    traffic_digest=TRAFFIC.digest,
    server={},
    traffic={},
    nights=(
        Night("2026-11-28", "gpu-01", {"output_tps": ((1400.0, 1410.0), (1395.0,))}),
        Night("2026-11-29", "gpu-02", {"output_tps": ((1404.0,),), "itl.mean": ((9.3,),)}),
    ),
)

INPUTS = {
    "alpha": 0.0125,
    "tolerances": {"ttft.p99": 0.1},
    "slos": {"ttft.p99": "< 200 ms"},
    "noise": {"output_tps": {"sd": 0.004, "df": 18.5}},
}


def write_whole_run(root: Path) -> RunFolder:
    """Write one of everything."""
    folder = RunFolder.create(root, HEADER.id)
    folder.write_header(HEADER)
    folder.write_traffic(TRAFFIC)
    launch = folder.launch("qwen3-14b", "qwen3-14b", 1)
    launch.log.write_text("INFO ready\n")
    launch.write_facts(SPEC, FACTS, "/opt/venv/bin/vllm")
    launch.write_replay(
        TRAFFIC,
        1,
        REPLAY,
        {"output_tps": 1311.0, "ttft.p99": 49.9},
        invalid="client-bound",
        metrics_before="# before\n",
        metrics_after="# after\n",
    )
    folder.write_verdict(VERDICT, "output_tps fell", baseline=BASELINE, inputs=INPUTS)
    folder.write_acceptance("qwen3-14b", "chat", Path("baselines/h200/qwen3-14b/chat.json"))
    folder.note("launch 2 was not begun")
    return folder


def test_all_that_is_written_comes_back(tmp_path: Path) -> None:
    """Header, recipe, facts, replays, verdicts, nights and notes are equal after a round trip."""
    folder = write_whole_run(tmp_path)
    folder.finish("failed")
    run = load_run(folder.path)
    assert (run.header, run.status, run.outcome) == (HEADER, "finished", "failed")
    (traffic,) = run.traffics
    assert traffic.spec == CHAT
    assert (traffic.digest, traffic.counted_by) == (TRAFFIC.digest, "Qwen/Qwen3-14B")
    assert traffic.notes == ("1 conversation was cut off",)
    assert (traffic.prompt_tokens, traffic.output_tokens, traffic.count) == ((6, 4), (3, 2), 2)
    assert traffic.offered_rate == 10.0
    (launch,) = run.launches
    assert (launch.campaign, launch.server, launch.number) == ("qwen3-14b", "qwen3-14b", 1)
    assert (launch.spec, launch.facts, launch.executable) == (SPEC, FACTS, "/opt/venv/bin/vllm")
    assert launch.log is not None
    assert launch.log.read_text() == "INFO ready\n"
    (stored,) = run.verdicts
    assert (stored.verdict, stored.message) == (VERDICT, "output_tps fell")
    assert stored.nights == {
        "output_tps": (
            # as the gate: √(√(1400·1410)·1395), not the plain mean of 1405 and 1395
            NightMean("2026-11-28", "gpu-01", pytest.approx(1399.98664, abs=1e-5)),
            NightMean("2026-11-29", "gpu-02", 1404.0),
        )
    }
    assert stored.accepted == {"output_tps": (((1400.0, 1410.0), (1395.0,)), ((1404.0,),))}
    assert stored.inputs == INPUTS
    assert run.accepted == ("qwen3-14b/chat → baselines/h200/qwen3-14b/chat.json",)
    assert run.notes == ("launch 2 was not begun",)
    assert run.missing == ()


def test_a_replay_comes_back_with_every_request(tmp_path: Path) -> None:
    """The very same Replay, and beside it its figures, why it is invalid, and the metrics."""
    folder = write_whole_run(tmp_path)
    (stored,) = load_run(folder.path).launches[0].replays
    assert read_replay(stored.path) == REPLAY
    assert stored.figures == {"output_tps": 1311.0, "ttft.p99": 49.9}
    assert (stored.traffic, stored.number, stored.invalid) == ("chat", 1, "client-bound")
    assert (stored.requests, stored.failed, stored.clock) == (2, 1, "kernel")
    assert stored.health == REPLAY.health
    assert stored.counters == REPLAY.counters
    assert stored.metrics_before is not None
    assert stored.metrics_after is not None
    assert stored.metrics_before.read_text() + stored.metrics_after.read_text() == (
        "# before\n# after\n"
    )


def test_a_replay_without_counters_or_rate_comes_back(tmp_path: Path) -> None:
    """What a server did not say is None again, not zero."""
    launch = RunFolder.create(tmp_path).launch("a", "a", 1)
    bare = replace(REPLAY, offered_rate=None, max_concurrency=8, counters=None)
    launch.write_replay(TRAFFIC, 12, bare, {})
    assert read_replay(launch.path / "chat-12.json") == bare


def test_answers_come_back_by_traffic(tmp_path: Path) -> None:
    """Token ids, texts, marks and errors; nobody takes their file for a replay."""
    folder = write_whole_run(tmp_path)
    launch = folder.launch("qwen3-14b", "qwen3-14b", 1)
    chat = Answers((Answer(" blue\n", (5, 198)), Answer("")), random_weights=True)
    rag = Answers(error="POST /v1/completions answered 500: out of cheese")
    launch.write_answers("chat", chat)
    launch.write_answers("rag-2", rag)
    (read,) = load_run(folder.path).launches
    assert read.answers == {"chat": chat, "rag-2": rag}
    assert len(read.replays) == 1
    data = json.loads((launch.path / "chat.answers.json").read_text())
    assert data["answers"][0] == {
        "digest": chat.digests[0],
        "text": " blue\n",
        "token_ids": [5, 198],
        "finish_reason": None,
    }


@pytest.mark.parametrize("answers", ['[{"text": "x", "token_ids": 5}]', "[7]", "7", "[{}]"])
def test_damaged_answers_are_named(tmp_path: Path, answers: str) -> None:
    """A file that something changed is an error with its path, not a crash."""
    folder = write_whole_run(tmp_path)
    path = folder.launch("qwen3-14b", "qwen3-14b", 1).path / "chat.answers.json"
    path.write_text(f'{{"schema": 1, "traffic": "chat", "answers": {answers}}}')
    with pytest.raises(StoreError, match=r"chat\.answers\.json is damaged"):
        load_run(folder.path)


def test_prompts_are_not_stored(tmp_path: Path) -> None:
    """The recipe and the digest make them again; a report need not carry users' texts."""
    folder = write_whole_run(tmp_path)
    texts = b"".join(f.read_bytes() for f in folder.path.rglob("*") if f.is_file())
    assert b"sky blue" not in texts


def test_a_run_that_goes_on_is_readable(tmp_path: Path) -> None:
    """From its header on a run can be read; it says that it is running and has no outcome."""
    folder = RunFolder.create(tmp_path, HEADER.id)
    folder.write_header(HEADER)
    assert json.loads((folder.path / "run.json").read_text())["status"] == "running"
    run = load_run(folder.path)
    assert (run.header, run.status, run.outcome) == (HEADER, "running", None)
    assert (run.launches, run.verdicts, run.missing) == ((), (), ())


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """A server that never got ready, a replay cut short, requests lost, a pair never judged."""
    folder = write_whole_run(tmp_path)
    died = folder.launch("qwen3-14b", "qwen3-14b", 2)
    died.log.write_text("CUDA out of memory\n")
    idle = folder.launch("awq", "awq", 1)
    idle.write_facts(replace(SPEC, name="awq"), FACTS, None)
    cut = folder.launch("tp2", "tp2", 1)
    cut.log.touch()
    cut.write_facts(replace(SPEC, name="tp2"), FACTS, None)
    cut.write_replay(TRAFFIC, 1, REPLAY, {})
    cut.write_replay(TRAFFIC, 2, REPLAY, {})
    (cut.path / "chat-1.parquet").unlink()
    (cut.path / "chat-2.json").unlink()
    assert load_run(folder.path).missing == (
        "awq: awq, launch 1 has no replay",
        "awq: awq, launch 1 has no server.log",
        "qwen3-14b: qwen3-14b, launch 2 has no facts: the server was never ready",
        "tp2: tp2, launch 1 has no requests of chat-1 (chat-1.parquet)",
        "tp2: tp2, launch 1 has no figures of chat-2: it ended before they were written",
        "tp2 with chat was replayed and never judged",
    )


def test_the_assembled_run_lists_all_of_it(tmp_path: Path) -> None:
    """run.json alone tells outcome, figures and statuses to whoever reads JSON."""
    folder = write_whole_run(tmp_path)
    folder.finish("failed")
    data = json.loads((folder.path / "run.json").read_text())
    assert (data["status"], data["outcome"], data["schema"]) == ("finished", "failed", 1)
    assert data["header"]["machine"]["gpu_model"] == "NVIDIA H200"
    assert data["launches"][0]["folder"] == "campaigns/qwen3-14b/qwen3-14b/launch-1"
    assert data["launches"][0]["replays"][0]["figures"] == {"output_tps": 1311.0, "ttft.p99": 49.9}
    assert [verdict["status"] for verdict in data["verdicts"]] == ["REGRESSED"]
    assert data["accepted"] == ["qwen3-14b/chat → baselines/h200/qwen3-14b/chat.json"]
    assert data["notes"] == ["launch 2 was not begun"]


def test_a_second_process_joins_the_run(tmp_path: Path) -> None:
    """An id that exists is joined, and the header that was first stays."""
    first = RunFolder.create(tmp_path, "night")
    first.write_header(replace(HEADER, id="night"))
    second = RunFolder.create(tmp_path, "night")
    second.write_header(replace(HEADER, id="night", command="a worker's own"))
    assert second == first
    assert load_run(first.path).header.command == "pytest -m gpu"


def _work(root: Path, number: int) -> None:
    folder = RunFolder.create(root, "night")
    folder.write_header(replace(HEADER, id="night"))
    folder.write_traffic(TRAFFIC)
    launch = folder.launch("pair", "qwen3-14b", number)
    launch.log.touch()
    launch.write_facts(SPEC, FACTS, None)
    launch.write_replay(TRAFFIC, 1, REPLAY, {"output_tps": float(number)})
    folder.note(f"worker {number}")
    folder.finish("passed")


def test_several_processes_write_one_run(tmp_path: Path) -> None:
    """Nothing that four workers write at the same time is lost or half there."""
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        list(pool.map(_work, [tmp_path] * 4, range(1, 5)))
    run = load_run(tmp_path / "night")
    assert [launch.replays[0].figures["output_tps"] for launch in run.launches] == [1, 2, 3, 4]
    assert sorted(run.notes) == ["worker 1", "worker 2", "worker 3", "worker 4"]
    assert len(run.traffics) == 1
    assert run.status == "finished"


def test_a_recipe_with_two_digests_is_kept_twice(tmp_path: Path) -> None:
    """Two models' tokenizers make two traffics of one recipe; neither takes the other's place."""
    folder = RunFolder.create(tmp_path)
    folder.write_header(replace(HEADER, id=folder.id))
    folder.write_traffic(TRAFFIC)
    folder.write_traffic(replace(TRAFFIC, requests=TRAFFIC.requests[:1]))
    assert sorted(t.count for t in load_run(folder.path).traffics) == [1, 2]


def test_all_at_once_comes_back_as_infinite(tmp_path: Path) -> None:
    """JSON has no infinity; the recipe has it again."""
    folder = RunFolder.create(tmp_path)
    folder.write_header(replace(HEADER, id=folder.id))
    folder.write_traffic(Traffic(TrafficSpec("burst", "random"), TRAFFIC.requests))
    (traffic,) = load_run(folder.path).traffics
    assert traffic.spec.request_rate == math.inf


def test_a_stored_verdict_can_be_judged_again(tmp_path: Path) -> None:
    """The mean of the stored nights' means is the reference that the gate computes from values."""
    folder = write_whole_run(tmp_path)
    (stored,) = load_run(folder.path).verdicts
    means = [night.mean for night in stored.nights["output_tps"]]
    again = judge_values(((1311.0,),), stored.accepted["output_tps"], figure="output_tps")
    assert again.reference == pytest.approx(math.sqrt(means[0] * means[1]))


def test_a_run_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """It kept no inputs, no accepted values and no acceptances."""
    folder = write_whole_run(tmp_path)
    (file,) = (folder.path / "verdicts").glob("*.json")
    data = json.loads(file.read_text())
    del data["inputs"], data["accepted"]
    file.write_text(json.dumps(data))
    (stored,) = load_run(folder.path).verdicts
    assert (stored.verdict, stored.accepted, stored.inputs) == (VERDICT, {}, {})


def test_acceptances_lie_in_their_order(tmp_path: Path) -> None:
    """One file each, so that a run that dies keeps those before."""
    folder = RunFolder.create(tmp_path)
    folder.write_header(replace(HEADER, id=folder.id))
    for traffic in ("prefix", "chat"):
        folder.write_acceptance("base", traffic, Path(f"b/{traffic}.json"))
    assert load_run(folder.path).accepted == (
        "base/prefix → b/prefix.json",
        "base/chat → b/chat.json",
    )


def test_a_verdict_judged_anew_takes_its_place(tmp_path: Path) -> None:
    """A rerun test leaves one verdict; two tests of one server and traffic leave two."""
    folder = write_whole_run(tmp_path)
    folder.write_verdict(replace(VERDICT, findings=()), "again")
    folder.write_verdict(replace(VERDICT, test="another::test", against="base"), "ratio")
    messages = [stored.message for stored in load_run(folder.path).verdicts]
    assert sorted(messages) == ["again", "ratio"]


def test_no_secret_is_stored(tmp_path: Path) -> None:
    """Keys in arguments, environment, headers, options, commands and messages are masked."""
    secret = "hunter2-hunter2"  # noqa: S105 - the secret under test
    names = ("HF_TOKEN", "S3_KEY", "CI_JOB_TOKEN_RO", "APP_SECRET", "DB_PASSWORD")
    environment = dict.fromkeys(names, secret)
    folder = RunFolder.create(tmp_path, "night")
    folder.write_header(
        replace(
            HEADER,
            id="night",
            options={"history": f"postgresql://ci:{secret}@db/llm", "api_key": secret},
            command=f"pytest --llmperf-history postgresql://ci:{secret}@db --api-key {secret}",
        )
    )
    headers = (("Authorization", f"Bearer {secret}"), ("x-api-key", secret))
    folder.write_traffic(Traffic(replace(CHAT, headers=headers), TRAFFIC.requests))
    launch = folder.launch("a", "a", 1)
    spec = ServerSpec.of(
        "a", "vllm", "m", ["--api-key", secret, f"--hf-token={secret}"], environment
    )
    launch.write_facts(spec, FACTS, None)
    folder.write_verdict(VERDICT, f"401 with Authorization: Bearer {secret}")
    folder.note(f"VLLM_API_KEY={secret} was refused")
    folder.finish("failed")
    stored = {f.name for f in folder.path.rglob("*.json") if secret in f.read_text()}
    assert stored == set()
    run = load_run(folder.path)
    assert run.launches[0].spec is not None
    assert run.launches[0].spec.arguments == ("--api-key", "***", "--hf-token=***")
    assert run.launches[0].spec.environment == tuple((name, "***") for name in sorted(names))
    assert run.traffics[0].spec.headers == (("Authorization", "***"), ("x-api-key", "***"))


def test_nested_options_come_back_as_they_were(tmp_path: Path) -> None:
    """Equal to those of the traffic, though they are stored as what they say."""
    nested = freeze({"range_ratio": {"output": 0.2, "input": 0.1}, "ids": [1, 2], "of": [[1], [2]]})
    folder = RunFolder.create(tmp_path, "night")
    folder.write_header(HEADER)
    spec = replace(CHAT, dataset_options=nested, extra_body=nested)
    folder.write_traffic(Traffic(spec, TRAFFIC.requests))
    assert load_run(folder.path).traffics[0].spec == spec


@pytest.mark.parametrize(
    ("file", "damage", "complaint"),
    [
        (
            f"traffics/chat-{TRAFFIC.digest}.json",
            '{"schema": 1, "recipe": {"name": "chat", "dataset": "random", "headers": [7]}}',
            "is damaged: cannot unpack",
        ),
        ("header.json", "{", "header.json is damaged"),
        ("header.json", '{"schema": 99}', "has schema 99; this version .* reads up to 1"),
        ("header.json", '{"schema": 1, "machine": {}}', "RunHeader lacks 'id'"),
        ("run.json", "[]", "run.json is damaged: it holds a list"),
        ("campaigns/qwen3-14b/qwen3-14b/launch-1/chat-1.json", "", "chat-1.json is damaged"),
        (
            "campaigns/qwen3-14b/qwen3-14b/launch-1/launch.json",
            '{"schema": 1, "server": {"name": "!", "engine": "vllm", "model": "m"}, "facts": {}}',
            "launch.json is damaged: server name '!'",
        ),
    ],
)
def test_damage_is_named(tmp_path: Path, file: str, damage: str, complaint: str) -> None:
    """Which file is damaged and how, as a StoreError."""
    folder = write_whole_run(tmp_path)
    (folder.path / file).write_text(damage)
    with pytest.raises(StoreError, match=complaint):
        load_run(folder.path)


def test_a_damaged_verdict_is_named(tmp_path: Path) -> None:
    """A status that is none cannot be shown as one."""
    folder = write_whole_run(tmp_path)
    (file,) = (folder.path / "verdicts").iterdir()
    file.write_text(file.read_text().replace('"REGRESSED"', '"FINE"'))
    with pytest.raises(StoreError, match="is damaged: 'FINE' is not a valid Status"):
        load_run(folder.path)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    """The message says what a run's folder has and where runs lie."""
    with pytest.raises(StoreError, match=r"is not the folder of a run: it has no header\.json"):
        load_run(tmp_path)


def test_files_of_others_in_a_launch_are_left_alone(tmp_path: Path) -> None:
    """The launcher and the load process keep files of their own beside ours."""
    folder = write_whole_run(tmp_path)
    launch = folder.launch("qwen3-14b", "qwen3-14b", 1)
    (launch.path / "supervisor.json").write_text("not ours")
    assert len(load_run(folder.path).launches[0].replays) == 1


def test_ids_tell_the_time_and_differ(tmp_path: Path) -> None:
    """Two runs begun in the same second have folders of their own."""
    ids = {RunFolder.create(tmp_path).id for _ in range(3)}
    assert len(ids) == 3
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", run_id) for run_id in ids)


@pytest.mark.parametrize("run_id", ["../elsewhere", "a/b", "-rf"])
def test_an_id_that_is_no_folder_name_is_refused(tmp_path: Path, run_id: str) -> None:
    """A run cannot be written outside the folder of runs."""
    with pytest.raises(SpecError, match="run name"):
        RunFolder.create(tmp_path, run_id)


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    """By the instant they began, whatever zone it is told in; other folders are no runs."""
    for run_id, started in (
        ("b", "2026-11-30T10:00:00+00:00"),
        ("a", "2026-11-30T12:30:00+01:00"),
        ("c", "2026-11-29T23:00:00+00:00"),
    ):
        RunFolder.create(tmp_path, run_id).write_header(
            replace(HEADER, id=run_id, started_at=started)
        )
    (tmp_path / "stray").mkdir()
    assert [path.name for path in list_runs(tmp_path)] == ["a", "b", "c"]
    assert list_runs(tmp_path / "nowhere") == []
