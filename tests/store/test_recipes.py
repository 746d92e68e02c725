"""Baselines found by recipe, before a traffic is built."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_llmperf import random
from pytest_llmperf.errors import BaselineError
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Json, Prompt, Request, Traffic, TrafficSpec, freeze, thaw
from pytest_llmperf.store._recipe import pairs_of
from pytest_llmperf.store.baselines import BaselineStore, NoBaseline
from pytest_llmperf.store.recipes import (
    differences,
    machines,
    recipe_differences,
    recipe_of,
    stored_baseline,
)
from pytest_llmperf.store.runs import RunFolder

HERE = Machine(gpu_model="H200", gpu_count=1)
SERVER = ServerSpec.of("base", "vllm", "m")
OTHER = ServerSpec.of("other", "vllm", "m")
CHAT = random(
    "chat",
    num_prompts=2,
    output_len=8,
    range_ratio={"input": 0.1, "output": 0.2},
    sampling={"top_p": 0.9},
    headers={"Authorization": "Bearer abcdefgh"},
)
BUILT = Traffic(CHAT, (Request(0, 0, Prompt((1, 2), 2, 8)), Request(1, 0, Prompt((3,), 1, 8))))
NIGHT = Night("2026-11-30", "host", {"output_tps": ((100.0,), (101.0,))})


@pytest.fixture
def store(tmp_path):
    return BaselineStore(tmp_path)


def test_the_same_recipe_finds_what_was_accepted(store):
    """Options that are mappings, and masked secrets, compare as they were stored."""
    store.accept(HERE, SERVER, BUILT, NIGHT)
    found = stored_baseline(store, HERE, "base", CHAT)
    assert isinstance(found, Baseline)
    assert found.traffic_digest == BUILT.digest


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"num_prompts": 3}, "num_prompts: 2 → 3"),
        ({"request_rate": 5.0}, "request_rate: inf → 5.0"),
        ({"dataset_options": random("x", output_len=9).dataset_options}, "output_len: 8 → 9"),
        ({"sampling": ()}, "sampling.top_p: 0.9 → not set"),
        (
            {"sampling": freeze({"top_p": 0.9, "seed": 1})},
            "(stored → here): sampling.seed: not set → 1",
        ),
        ({"extra_body": freeze({"top_k": None})}, "extra_body.top_k: not set → None"),
        (
            {"headers": freeze({"Authorization": "Bearer abcdefgh", "x-team": "a"})},
            "headers.x-team: not set → a",
        ),
        ({"arrival_options": freeze({"burstiness": 1})}, "arrival_options.burstiness: not set → 1"),
    ],
)
def test_another_recipe_finds_nothing_and_says_what_differs(store, change, told):
    """Field by field, as the judgement will."""
    store.accept(HERE, SERVER, BUILT, NIGHT)
    found = stored_baseline(store, HERE, "base", replace(CHAT, **change))
    assert isinstance(found, NoBaseline)
    assert told in found.reason


def test_what_no_request_depends_on_makes_no_other_recipe(store):
    """More warm-ups, or more errors allowed, leave the digest as it is."""
    store.accept(HERE, SERVER, BUILT, NIGHT)
    changed = replace(CHAT, num_warmups=7, max_error_rate=0.5)
    assert isinstance(stored_baseline(store, HERE, "base", changed), Baseline)


def test_nothing_stored_says_why(store):
    """In the words of the store."""
    found = stored_baseline(store, HERE, "base", CHAT)
    assert isinstance(found, NoBaseline)
    assert "no night of base on chat is stored" in found.reason


def test_ratios_have_a_baseline_of_their_own(store):
    """A pair's file is not the server's."""
    store.accept(HERE, OTHER, BUILT, NIGHT, against=SERVER)
    found = stored_baseline(store, HERE, "other", CHAT, against="base")
    assert isinstance(found, Baseline)
    assert isinstance(stored_baseline(store, HERE, "other", CHAT), NoBaseline)


def test_a_damaged_file_is_named(store):
    """It is the very one that the night would be judged by."""
    path = store.accept(HERE, SERVER, BUILT, NIGHT)
    path.write_text("{")
    with pytest.raises(BaselineError, match=r"chat\.json is damaged"):
        stored_baseline(store, HERE, "base", CHAT)


def test_a_field_that_was_not_stored_was_at_its_default():
    """So an older version's recipe stays the same until the new field is used."""
    recipe = {"dataset": "random", "num_prompts": 100}
    plain = TrafficSpec("chat", "random")
    assert differences(plain, recipe) == []
    assert differences(replace(plain, seed=1), recipe) == ["seed: 0 → 1"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, []),
        ({"min_len": 4, "by_role": False}, []),  # what the constructor sets where nobody says it
        ({"min_len": 5}, ["dataset_options.min_len: not set → 5"]),
        ({"newest": None}, ["dataset_options.newest: not set → None"]),
    ],
)
def test_an_option_that_an_older_dataset_had_not_was_at_its_default(options, told):
    """Another value of it makes other requests, and so may one that nobody knows."""
    recipe = {"dataset": "sharegpt", "dataset_options": {"path": None, "output_len": None}}
    own = freeze({"path": None, "output_len": None, **options})
    spec = TrafficSpec("chat", "sharegpt", own)
    assert differences(spec, recipe) == told
    here, there = recipe_of(spec), recipe_of(replace(spec, dataset_options=()))
    assert [line.partition(":")[0] for line in recipe_differences(here, there)] == [
        line.partition(":")[0] for line in told
    ]


@pytest.mark.parametrize("broken", [7, "text", [["a"]], None])
def test_options_that_are_none_are_told_as_they_are(broken):
    """A file that somebody edited: no other recipe's, and no crash."""
    spec = TrafficSpec("x", "random")
    assert differences(spec, {"dataset": "random", "sampling": broken}) == [
        f"sampling: {broken} → {{}}"
    ]


def test_an_option_of_a_dataset_that_is_not_installed_has_no_default():
    """Nobody can say what it was at: it is told."""
    spec = TrafficSpec("x", "somebody_elses", (("words", 3),))
    assert differences(spec, recipe_of(replace(spec, dataset_options=()))) == [
        "dataset_options.words: not set → 3"
    ]


def test_what_no_request_depends_on_does_not_tell_two_recipes_apart():
    """Else a changed limit of errors would be named for what the dataset's content did."""
    other = replace(CHAT, name="y", num_warmups=7, max_error_rate=0.5)
    assert recipe_differences(recipe_of(CHAT), recipe_of(other)) == []


def test_a_run_and_a_baseline_hold_the_same_recipe(tmp_path, store):
    """Nested options too, in one form: neither differs from the traffic that it is of."""
    path = store.accept(HERE, SERVER, BUILT, NIGHT)
    folder = RunFolder.create(tmp_path / "runs", "night")
    folder.write_traffic(BUILT)
    (file,) = (folder.path / "traffics").glob("*.json")
    of_run = json.loads(file.read_text())["recipe"]
    of_baseline = json.loads(path.read_text())["traffic"]
    assert of_run["dataset_options"]["range_ratio"] == {"input": 0.1, "output": 0.2}
    assert {key: of_baseline[key] for key in of_run} == of_run == recipe_of(CHAT)
    assert differences(CHAT, of_run) == differences(CHAT, of_baseline) == []


def test_the_pairs_of_an_older_run_are_read_too():
    """In them a nested value is JSON text; what only looks like one is a text."""
    options = {"ids": (1, 2), "ratio": {"input": 0.1}, "word": "{}x"}
    written = [["ids", [1, 2]], ["ratio", '{"input": 0.1}'], ["word", "{}x"]]
    assert pairs_of(written) == freeze(options) == pairs_of(thaw(freeze(options)))
    assert isinstance(dict(pairs_of(written))["ratio"], Json)
    spec = TrafficSpec("x", "random", freeze(options))
    assert differences(spec, {"dataset": "random", "dataset_options": written}) == []


def test_secrets_are_masked_at_any_depth():
    """Also in a mapping that lies in a list."""
    nested = {"tools": [{"name": "a", "api_key": "hunter2-hunter2"}], "words": ["a", "b"]}
    recipe = recipe_of(TrafficSpec("x", "random", extra_body=freeze(nested)))
    assert recipe["extra_body"] == {
        "tools": [{"name": "a", "api_key": "***"}],
        "words": ["a", "b"],
    }


def test_machines_are_told_by_their_folders(store):
    """One readable file in a folder is enough; damaged ones are passed over."""
    two = replace(HERE, gpu_count=2)
    store.accept(HERE, SERVER, BUILT, NIGHT)
    store.accept(two, SERVER, BUILT, NIGHT)
    path = store.accept(two, OTHER, BUILT, NIGHT)
    path.with_name("a.json").write_text("{")
    assert machines(store) == {HERE.key: HERE, two.key: two}
