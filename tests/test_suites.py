"""The suites of this repository: each server and traffic is one, and can be planned for anywhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def planned(*arguments):
    """Plan for suites without a GPU; return what was printed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, "--llmperf-plan"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("folder", ["nightly", "weekly"])
def test_each_set_of_suites_says_its_gpu_minutes(folder):
    """On a machine without a GPU, before anything is spent."""
    assert "GPU min" in planned("-m", "gpu", f"suites/{folder}")


def test_the_simulated_engine_takes_every_server_of_the_suites():
    """A rehearsal reaches each of them: no argument that only a real vLLM understands."""
    from pytest_llmperf.engines import ENGINES, Place
    from pytest_llmperf.model.server import ServerSpec
    from suites import servers

    specs = [spec for spec in vars(servers).values() if isinstance(spec, ServerSpec)]
    assert len({spec.name for spec in specs}) == len(specs) > 10
    for spec in specs:
        place = Place(None, spec.model, "127.0.0.1", 1)
        ENGINES["sim"].check(spec.with_engine("sim"), place)
