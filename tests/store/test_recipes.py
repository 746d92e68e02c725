"""Baselines found by recipe, before a traffic is built."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmperf import random
from pytest_llmperf.errors import BaselineError
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.store.baselines import BaselineStore, NoBaseline
from pytest_llmperf.store.recipes import differences, machines, stored_baseline

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
        ({"sampling": ()}, "sampling.top_p: 0.9 → None"),
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


def test_machines_are_told_by_their_folders(store):
    """One readable file in a folder is enough; damaged ones are passed over."""
    two = replace(HERE, gpu_count=2)
    store.accept(HERE, SERVER, BUILT, NIGHT)
    store.accept(two, SERVER, BUILT, NIGHT)
    path = store.accept(two, OTHER, BUILT, NIGHT)
    path.with_name("a.json").write_text("{")
    assert machines(store) == {HERE.key: HERE, two.key: two}
