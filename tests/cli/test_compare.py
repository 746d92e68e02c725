from __future__ import annotations

import json

import pytest

from pytest_llmperf.cli._compare_runs import compare
from pytest_llmperf.store.runs import load_run
from tests.cli.conftest import H200, SERVER, edit


@pytest.fixture
def pair(runs):
    """Two nights: the H200 run and a copy of it, to be changed."""
    return runs.add("a", "2026-12-01T01:00:00+00:00"), runs.add("b", "2026-12-02T01:00:00+00:00")


def compared(a, b):
    return compare(load_run(a), load_run(b))


def rows_of(a, b):
    (only,) = compared(a, b).compared
    return {row.figure: row for row in only.rows}


def test_a_run_equals_its_copy(pair):
    """Every figure that the run has, unchanged, the gated ones PASSED."""
    rows = rows_of(*pair)
    assert {row.change for row in rows.values()} == {0}
    assert {row.better for row in rows.values()} == {None}
    assert {name for name, row in rows.items() if row.gated} == {
        "output_tps", "itl.mean", "itl.median", "ttft.p99",
        "kv_tokens", "weights_gib", "max_concurrency",
    }  # fmt: skip
    assert {row.status.value for row in rows.values() if row.gated} == {"PASSED"}
    assert {row.status for row in rows.values() if not row.gated} == {None}


def test_better_and_worse_go_by_direction(runs, pair):
    """A throughput that fell and a latency that rose are worse; values as measured."""
    runs.scale(pair[1], output_tps=0.9, total_tps=1.1, itl__mean=1.1, tpot__mean=0.9)
    rows = rows_of(*pair)
    assert {name for name, row in rows.items() if row.better is False} == {"output_tps", "itl.mean"}
    assert {name for name, row in rows.items() if row.better} == {"total_tps", "tpot.mean"}
    # sqrt(1051.294 · 1051.167) = 1051.231, and a tenth less
    assert rows["output_tps"].a == pytest.approx(1051.231, abs=0.001)
    assert rows["output_tps"].b == pytest.approx(946.108, abs=0.001)
    assert rows["output_tps"].change == pytest.approx(-0.1)
    assert rows["itl.mean"].change == pytest.approx(0.1)


def test_the_gate_judges_b_as_a_night_after_a(runs, pair):
    """10 % is beyond the noise assumed of one accepted night; 1 % is not."""
    runs.scale(pair[1], output_tps=0.9, itl__mean=1.01)
    rows = rows_of(*pair)
    assert rows["output_tps"].status.value == "REGRESSED"
    assert rows["itl.mean"].status.value == "PASSED"
    assert rows["output_tps"].noise == "assumed"


def test_an_interval_takes_two_launches_of_each(runs, pair):
    """With one launch on a side there is none; with two, the true change lies in it."""
    a, b = pair
    runs.relaunch(a)
    runs.scale(b, output_tps=0.9)
    assert rows_of(a, b)["output_tps"].interval is None
    runs.relaunch(b)
    low, high = rows_of(a, b)["output_tps"].interval
    assert low < -0.1 < high < 0
    (pair_of,) = compared(a, b).compared
    assert (pair_of.a.shape, pair_of.b.shape) == ((2, 2), (2, 2))


def test_launches_of_several_campaigns_count_alike(runs, pair):
    """A server's own campaign and one where it is the reference: both start it afresh."""
    _, b = pair
    (b / "campaigns" / "x-vs-y").mkdir()
    (b / SERVER).rename(b / "campaigns" / "x-vs-y" / "qwen3-14b")
    (b / SERVER.parent).rmdir()
    runs.add("c")
    (b / SERVER.parent).mkdir()
    (runs.root / "c" / SERVER).rename(b / SERVER)
    (pair_of,) = compared(*pair).compared
    assert pair_of.b.shape == (2, 2)


def test_the_gate_is_that_of_b_s_suite(runs, pair):
    """Figures and tolerances that B's verdict was reached by."""
    _, b = pair
    verdict = next((b / "verdicts").glob("*.json"))

    def gate_tpot(data):
        findings = data["verdict"]["findings"]
        (judged,) = [f for f in findings if f["figure"] == "itl.mean" and f["kind"] == "baseline"]
        data["verdict"]["findings"] = [{**judged, "figure": "tpot.mean"}]
        data["inputs"] = {"tolerances": {"tpot.mean": 0.001}, "noise": {}}

    edit(verdict, gate_tpot)
    runs.scale(b, tpot__mean=1.01, output_tps=0.5)
    rows = rows_of(*pair)
    assert {name for name, row in rows.items() if row.gated} == {"tpot.mean"}
    assert rows["tpot.mean"].status.value == "INCONCLUSIVE"  # PASSED with a tolerance of 5 %


def test_the_machine_s_noise_is_used_where_b_s_verdict_knew_it(runs, pair):
    """A quiet machine, known from 50 nights, makes 3 % of a throughput a regression."""
    a, b = pair
    for folder in pair:
        runs.relaunch(folder, 2)
        runs.relaunch(folder, 3)
    for launch in (1, 2, 3):
        runs.scale(b, launch, output_tps=0.97)
    assert rows_of(a, b)["output_tps"].status.value == "INCONCLUSIVE"
    noise = {"output_tps": {"sd": 0.002, "df": 50}}
    verdict = next((b / "verdicts").glob("*.json"))
    edit(verdict, lambda data: data.update(inputs={"tolerances": {}, "noise": noise}))
    row = rows_of(a, b)["output_tps"]
    assert (row.status.value, row.noise) == ("REGRESSED", "pooled")


def test_arguments_and_versions_are_diffed(pair):
    """What is different in the server, the engine, its executable and the tools."""
    _, b = pair

    def change(data):
        data["server"]["arguments"][1] = "4096"
        data["facts"]["engine_version"] = "0.26.0"
        data["executable"] = "/opt/llm/bin/vllm-0.26.0"

    edit(b / SERVER / "launch-1" / "launch.json", change)
    edit(b / "header.json", lambda data: data["versions"].update(python="3.13.0"))
    found = compared(*pair)
    assert found.versions == ("python 3.12.3 → 3.13.0",)
    assert found.compared[0].changed == (
        "arguments + --max-model-len 4096, − --max-model-len 8192",
        "engine version 0.25.1 → 0.26.0",
        "executable /opt/llm/bin/vllm-0.25.1 → /opt/llm/bin/vllm-0.26.0",
    )


def test_another_machine_is_not_compared(call, runs, pair):
    """It is said what differs."""
    _, b = pair
    edit(b / "header.json", lambda data: data["machine"].update(gpu_model="NVIDIA H100"))
    found = compared(*pair)
    assert found.compared == ()
    assert found.apart == {
        ("qwen3-14b", "chat"): "other machine: gpu_model: NVIDIA H200 → NVIDIA H100"
    }
    status, out, _ = call("compare", "a", "b", "--runs", runs.root)
    assert status == 0
    assert "nothing could be compared" in out


def test_a_simulated_server_never_meets_a_real_one(pair):
    """Whatever the header says of the host."""
    _, b = pair
    edit(b / SERVER / "launch-1" / "launch.json", lambda data: data["server"].update(engine="sim"))
    assert "simulated: False → True" in compared(*pair).apart["qwen3-14b", "chat"]


def test_other_traffic_is_not_compared(pair):
    """The recipe's differences are named."""
    _, b = pair
    for file in (b / SERVER / "launch-1").glob("chat-?.json"):
        edit(file, lambda data: data.update(digest="0123456789abcdef"))
    stored = next((b / "traffics").glob("*.json"))

    def change(data):
        data["digest"] = "0123456789abcdef"
        data["recipe"]["num_prompts"] = 40
        data["counted_by"] = "words"

    edit(stored, change)
    reason = compared(*pair).apart["qwen3-14b", "chat"]
    assert reason.startswith("other traffic (c2f6bf69f74a42de → 0123456789abcdef): ")
    assert "num_prompts: 400 → 40" in reason
    assert reason.endswith("→ words")


def test_invalid_replays_do_not_count(pair):
    """One of two is left out and said; where none is left there is nothing to compare."""
    _, b = pair
    first, second = sorted((b / SERVER / "launch-1").glob("chat-?.json"))
    edit(first, lambda data: data.update(invalid="the client was too slow"))
    found = compared(*pair)
    assert found.compared[0].b.shape == (1, 1)
    assert found.compared[0].notes == (
        "B: qwen3-14b, launch 1, replay 1 is INVALID: the client was too slow",
    )
    edit(second, lambda data: data.update(invalid="the client was too slow"))
    found = compared(*pair)
    assert found.compared == ()
    assert "B has no replay that counts" in found.apart["qwen3-14b", "chat"]


def test_what_only_one_side_has_is_named(pair):
    """A server with its traffic, and a figure."""
    a, b = pair
    (b / "campaigns" / "qwen3-14b" / "qwen3-14b").rename(b / "campaigns" / "qwen3-14b" / "awq")
    found = compared(a, b)
    assert (found.only_a, found.only_b) == ((("qwen3-14b", "chat"),), (("awq", "chat"),))
    (b / "campaigns" / "qwen3-14b" / "awq").rename(b / SERVER)
    for file in (b / SERVER / "launch-1").glob("chat-?.json"):
        edit(file, lambda data: data["figures"].pop("preemptions"))
        edit(file, lambda data: data["figures"].update(of_another_version=1.0))
    (only,) = compared(a, b).compared
    assert only.only_a == ("preemptions",)
    assert only.notes == ("no metric here gives of_another_version",)


def test_requests_that_are_gone_are_said(pair):
    """Without them nobody knows whether a throughput is the arrivals' or the server's."""
    for file in (pair[1] / SERVER / "launch-1").glob("*.parquet"):
        file.unlink()
    (only,) = compared(*pair).compared
    assert "whether arrivals limited its throughput is not known" in only.notes[0]


def test_exit_status(call, runs, pair):
    """0 whatever came out; with --fail-on-regression 1 where a gated figure REGRESSED."""
    words = ("compare", "previous", "latest", "--runs", runs.root)
    runs.scale(pair[1], tpot__mean=1.5)  # not gated
    assert call(*words, "--fail-on-regression")[0] == 0
    runs.scale(pair[1], output_tps=0.8)
    assert call(*words)[0] == 0
    status, _, err = call(*words, "--fail-on-regression")
    assert (status, "REGRESSED: qwen3-14b/chat output_tps" in err) == (1, True)


def test_nothing_to_compare_cannot_pass(call, runs, pair):
    """--fail-on-regression with nothing compared is an error, not a success."""
    edit(pair[1] / "header.json", lambda data: data["machine"].update(gpu_count=2))
    status, _, err = call("compare", "a", "b", "--runs", runs.root, "--fail-on-regression")
    assert (status, "no gated figure could be compared" in err) == (2, True)


def test_the_text(call, runs, pair):
    """Runs, launches, the figures in a table, and that it is two nights only."""
    runs.scale(pair[1], output_tps=0.9)
    _, out, _ = call("compare", "a", "b", "--runs", runs.root)
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["A", "a"]
    assert "qwen3-14b/chat   A: 1 launch × 2 replays, B: 1 launch × 2 replays" in lines
    (row,) = [line for line in lines if line.split()[:1] == ["output_tps"]]
    assert row.split() == ["output_tps", "1,051", "946.1", "tok/s", "−10.0", "%", "worse", "REGRESSED"]  # fmt: skip
    assert "Two nights are compared" in out
    assert "e2el.p95" not in out
    assert "e2el.p95" in call("compare", "a", "b", "--runs", runs.root, "--all")[1]


def test_json(call, runs, pair):
    """Every figure, with what a script needs to decide by itself."""
    runs.scale(pair[1], output_tps=0.9)
    found = json.loads(call("compare", "a", "b", "--runs", runs.root, "--json")[1])
    (only,) = found["compared"]
    (row,) = [row for row in only["figures"] if row["figure"] == "output_tps"]
    assert (row["status"], row["better"], row["gated"]) == ("REGRESSED", False, True)
    assert only["regressed"] == ["output_tps"]
    assert found["a"]["machine"] == "nvidia-h200-x1-ed3a3734"


def test_a_run_is_not_compared_with_itself(call):
    """Whatever it is called by."""
    status, _, err = call("compare", H200, "latest", "--runs", H200.parent)
    assert (status, "the same run" in err) == (2, True)


def test_runs_of_the_simulator(call, starter):
    """Two sessions of the starter, the second on a server half as fast."""
    root = starter.path / ".llmperf" / "runs"
    status, out, err = call("compare", "previous", "latest", "--runs", root, "--fail-on-regression")
    assert status == 1
    assert "itl.median" in err
    assert "changed: arguments + --slowdown 2" in out
    assert out.count("SIMULATED") == 2
