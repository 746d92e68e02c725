"""What earlier runs took: the newest that knows, of the same server, recipe and machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.record import ClientHealth, Replay
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Traffic, TrafficSpec
from pytest_llmperf.store.costs import PastRuns, Took
from pytest_llmperf.store.runs import RunFolder, RunHeader

H200 = Path(__file__).parent.parent / "data" / "h200"
SERVER = ServerSpec.of("base", "vllm", "m", ["--max-model-len", "8192"])
CHAT = TrafficSpec.of("chat", "random", {"output_len": 8}, {"num_prompts": 4, "request_rate": 2})
HERE = Machine(gpu_model="H200", gpu_count=1)


def run(root, number, *, startups=(), replays=(), server=SERVER, traffic=CHAT, invalid=None):
    """Write a run with so many seconds for each launch and each replay of its last launch."""
    folder = RunFolder.create(root, f"run-{number}")
    folder.write_header(RunHeader(folder.id, f"2026-11-{number:02}T00:00:00+00:00", HERE))
    built = Traffic(traffic, ())
    folder.write_traffic(built)
    for launch, seconds in enumerate(startups, 1):
        where = folder.launch(server.name, server.name, launch)
        where.write_facts(server, LaunchFacts(startup_s=seconds), "vllm")
    for replay, seconds in enumerate(replays, 1):
        health = ClientHealth(0, 0, 0, 0.1, seconds, 0.1)
        started = f"2026-11-{number:02}T00:00:{replay:02}+00:00"
        done = Replay(traffic.name, built.digest, (), None, None, "kernel", health, started)
        where.write_replay(built, replay, done, {}, invalid=invalid)
    return folder


def test_a_real_run_tells_what_it_took():
    """The H200's own artifacts: 109.39 s to be ready, 76.2 s a replay."""
    past = PastRuns(H200)
    server = ServerSpec.of("qwen3-14b", "vllm", "Qwen/Qwen3-14B")
    chat = TrafficSpec.of(
        "chat",
        "sharegpt",
        {"path": None, "output_len": None, "by_role": False, "min_len": 4},
        {"num_prompts": 400, "request_rate": 10, "max_concurrency": 10},
    )
    assert past.startups(server, None) == Took((109.39,), "20261130-105554-9eea")
    took = past.replays(server, chat, None)
    assert took.run == "20261130-105554-9eea"
    assert took.seconds == pytest.approx((76.228, 76.238), abs=0.001)


def test_the_newest_run_that_knows_is_taken(tmp_path):
    """A later run without launches of the server says nothing of them."""
    run(tmp_path, 1, startups=[99], replays=[9])
    run(tmp_path, 2, startups=[150, 70, 80], replays=[12, 13])
    run(tmp_path, 3, startups=[5], replays=[1], server=replace(SERVER, name="other"))
    past = PastRuns(tmp_path)
    assert past.startups(SERVER, HERE) == Took((150, 70, 80), "run-2")
    assert past.replays(SERVER, CHAT, HERE) == Took((12, 13), "run-2")


@pytest.mark.parametrize(
    "other", [replace(SERVER, engine="sim"), replace(SERVER, model="n")], ids=["engine", "model"]
)
def test_another_engine_or_model_of_the_name_is_another_server(tmp_path, other):
    """A rehearsal says nothing of the real one; other arguments are what is being gated."""
    run(tmp_path, 1, startups=[5], replays=[1], server=other)
    past = PastRuns(tmp_path)
    assert past.startups(SERVER, None) is None
    assert past.replays(SERVER, CHAT, None) is None
    changed = SERVER.with_arguments(["--enforce-eager"])
    run(tmp_path, 2, startups=[50], replays=[11], server=changed)
    assert PastRuns(tmp_path).startups(SERVER, None) == Took((50,), "run-2")


def test_another_recipe_of_the_name_is_another_traffic(tmp_path):
    """Twice the prompts take another time."""
    run(tmp_path, 1, startups=[5], replays=[1], traffic=replace(CHAT, num_prompts=8))
    assert PastRuns(tmp_path).replays(SERVER, CHAT, HERE) is None
    run(tmp_path, 2, startups=[5], replays=[3], traffic=replace(CHAT, max_error_rate=0.1))
    assert PastRuns(tmp_path).replays(SERVER, CHAT, HERE) == Took((3,), "run-2")


def test_another_machine_takes_another_time(tmp_path):
    """Unless nobody knows the machine."""
    run(tmp_path, 1, startups=[50], replays=[1])
    past = PastRuns(tmp_path)
    assert past.startups(SERVER, replace(HERE, gpu_count=2)) is None
    assert past.startups(SERVER, None) == Took((50,), "run-1")


def test_what_is_invalid_or_damaged_does_not_count(tmp_path):
    """A replay that ended early was short; a file that cannot be read is passed over."""
    run(tmp_path, 1, startups=[50], replays=[10])
    run(tmp_path, 2, startups=[60], replays=[2], invalid="3 of 4 requests failed")
    broken = run(tmp_path, 3, startups=[70], replays=[11])
    for file in broken.path.glob("campaigns/*/*/*/*.json"):
        file.write_text("{")
    past = PastRuns(tmp_path)
    assert past.replays(SERVER, CHAT, HERE) == Took((10,), "run-1")
    assert past.startups(SERVER, HERE) == Took((60,), "run-2")


def test_a_kept_server_has_no_start(tmp_path):
    """A launch without a start-up time is no launch to learn from."""
    run(tmp_path, 1, startups=[50], replays=[10])
    run(tmp_path, 2, startups=[None], replays=[12])
    assert PastRuns(tmp_path).startups(SERVER, HERE) == Took((50,), "run-1")


def test_no_folder_is_no_past(tmp_path):
    """The first session of all has nothing to look at."""
    past = PastRuns(tmp_path / "none")
    assert past.startups(SERVER, None) is None
    assert past.replays(SERVER, CHAT, None) is None


def test_files_of_unexpected_content_are_no_error(tmp_path):
    """A plan must not fail because of what somebody wrote into an old run."""
    folder = run(tmp_path, 1, startups=[50], replays=[10])
    for file in folder.path.glob("campaigns/*/*/*/*.json"):
        file.write_text(json.dumps({"schema": 1, "facts": None, "server": None, "health": None}))
    past = PastRuns(tmp_path)
    assert past.startups(SERVER, HERE) is None
    assert past.replays(SERVER, CHAT, HERE) is None
