"""Fixed traffic is fixed: pinned digests of every dataset, in any process and locale.

A digest that changes makes every stored baseline of that traffic incomparable: where one of
these must change, say so in CHANGELOG.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_llmperf.arrivals import ARRIVALS
from pytest_llmperf.datasets import DATASETS
from tests.datasets.recipes import digests, recipes

ROOT = Path(__file__).parents[2]

PINNED = {
    "random": {"even": "18cd27a5fd8e288c", "around": "9a3bd4f6548126a0"},
    "prefix_repetition": {"prefixes": "3fe455ccec74a223"},
    "sharegpt": {"list": "3f89b11f5cb50db0", "lines": "08b1bd921ed4cf05"},
    "custom": {"own": "7cdd61a95925283e"},
    "multi_turn": {
        "talks": "6500466e15da6fc0",
        "text": "4335a06a21a58ca1",
        "ids": "12170f6bdd9af610",
    },
    "trace": {
        "mooncake": "4142288243103866",
        "azure": "be2852785bd02ddd",
        "burstgpt": "191940908e44f427",
    },
}

PROCESSES = {
    "hash seed 1": {"PYTHONHASHSEED": "1"},
    "C": {"PYTHONHASHSEED": "4242", "LC_ALL": "C", "TZ": "Asia/Kathmandu"},
    "POSIX": {"PYTHONHASHSEED": "random", "LC_ALL": "POSIX", "TZ": "America/St_Johns"},
}
"""Environments; without UTF-8 mode, and without Python's own way out of the C locale."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The digests, made in this process."""
    return digests(tmp_path_factory.mktemp("here"))


@pytest.mark.parametrize("dataset", DATASETS.names())
def test_the_digests_of_every_dataset_are_pinned(made, dataset):
    """A dataset without a recipe and a pinned digest fails, as does one whose traffic changed."""
    assert made.get(dataset) == PINNED.get(dataset)
    assert PINNED.get(dataset)


def test_the_recipes_use_every_arrival_process(tmp_path):
    """So that the schedules are pinned too."""
    assert {spec.arrival for spec in recipes(tmp_path)} == set(ARRIVALS)


def elsewhere(folder, environment):
    """Return the digests that a new process makes."""
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-m", "tests.datasets.recipes", str(folder)],
        env={**os.environ, "PYTHONCOERCECLOCALE": "0", **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("environment", PROCESSES.values(), ids=PROCESSES)
def test_any_process_makes_the_same_traffic(tmp_path, environment):
    """Whatever its hash seed, its locale, its time zone, its folder."""
    assert elsewhere(tmp_path, environment) == PINNED


def test_a_turkish_locale_that_is_not_utf_8_makes_the_same_traffic(tmp_path):
    """Its encoding has no byte for most of the text, and its I is another letter's capital."""
    folder = tmp_path / "locales"
    folder.mkdir()
    compiler = shutil.which("localedef")
    words = [compiler, "-i", "tr_TR", "-f", "ISO-8859-9", str(folder / "tr_TR.ISO-8859-9")]
    if compiler is None or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this machine cannot make a Turkish locale (localedef)")
    environment = {"LOCPATH": str(folder), "LC_ALL": "tr_TR.ISO-8859-9", "TZ": "Europe/Istanbul"}
    code = "import locale; print(locale.getencoding())"
    shown = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == "ISO-8859-9"
    assert elsewhere(tmp_path, environment) == PINNED
