"""Runs to list and to compare: a real one on an H200, copies of it, and some on the simulator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_llmperf.cli import main

H200 = Path(__file__).parent.parent / "data" / "h200" / "20261130-105554-9eea"
SERVER = Path("campaigns", "qwen3-14b", "qwen3-14b")


def edit(path, change):
    """Rewrite a JSON file as ``change`` leaves it."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


@dataclass
class Runs:
    """A folder of runs; the copies in it can be changed."""

    root: Path

    def add(self, name, started="2026-12-01T10:55:54+00:00"):
        """Copy the H200 run; return its folder."""
        folder = self.root / name
        shutil.copytree(H200, folder)
        edit(folder / "header.json", lambda data: data.update(id=name, started_at=started))
        return folder

    def scale(self, folder, launch=1, **factors):
        """Multiply figures of a launch's replays: ``itl__mean=1.1`` is ``itl.mean`` + 10 %."""
        for file in (folder / SERVER / f"launch-{launch}").glob("chat-?.json"):
            edit(
                file,
                lambda data: data["figures"].update(
                    {
                        name: data["figures"][name] * factor
                        for key, factor in factors.items()
                        for name in [key.replace("__", ".")]
                    }
                ),
            )

    def relaunch(self, folder, launch=2):
        """Copy the first launch as another one."""
        shutil.copytree(folder / SERVER / "launch-1", folder / SERVER / f"launch-{launch}")


@pytest.fixture
def runs(tmp_path):
    """An empty folder of runs."""
    root = tmp_path / "runs"
    root.mkdir()
    return Runs(root)


@pytest.fixture
def call(capsys):
    """Call the command: ``status, out, err = call("runs", …)``."""

    def run(*words):
        try:
            status = main([str(word) for word in words])
        except SystemExit as ended:  # argparse
            status = ended.code
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@dataclass
class Starter:
    """A repository after ``init`` and two sessions on the simulated engine."""

    path: Path
    said: str
    sessions: list[subprocess.CompletedProcess]


@pytest.fixture(scope="session")
def starter(tmp_path_factory):
    """Go from an empty repository to a verdict, as a newcomer does, and once more, slower."""
    path = tmp_path_factory.mktemp("starter")
    subprocess.run(["git", "init", "-q", path], check=True)
    hidden = ("CI", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", *words],
            cwd=path,
            env=environment,
            text=True,
            capture_output=True,
            check=False,
        )

    said = run("pytest_llmperf.cli", "init")
    assert said.returncode == 0, said.stderr
    short = ("--llmperf-engine", "sim", "--llmperf-launches", "1", "--llmperf-replays", "1")
    rehearse = ("pytest", "suites", "-p", "no:cacheprovider", *short, "--llmperf-prompts", "4")
    sessions = [
        run(*rehearse, "--llmperf-accept"),
        run(*rehearse, "--llmperf-server-args", "--slowdown 2"),
    ]
    return Starter(path, said.stdout, sessions)
