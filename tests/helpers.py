"""What tests of several packages share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psutil
import pytest


def require_tool(name: str, why: str) -> str:
    """Return a tool's path; without it skip on a laptop, fail under CI."""
    path = shutil.which(name)
    if path is None:
        end = pytest.fail if os.environ.get("CI") else pytest.skip
        end(f"{name} is not installed: {why}")
    return str(path)


def family(folder: Path) -> list[psutil.Process]:
    """Return the processes that a run in ``folder`` has started and not ended."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            inside = Path(process.cwd()).is_relative_to(folder) or any(
                str(folder) in word for word in words
            )
        except (psutil.Error, OSError):
            continue
        if inside and any("pytest_llmperf" in word for word in words):
            found.append(process)
    return found
