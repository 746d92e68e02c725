"""What the plugin costs a project that does not use it: `pytest --collect-only` of one empty test.

    python benchmarks/idle.py [--rounds 15]

Runs pytest with and without the plugin in turns, in one sitting, and prints both medians and the
median of the differences pair by pair. The bar is 20 ms.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median


def seconds(folder: str, *options: str) -> float:
    """Return how long one collection took, process start and end included."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options]
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_empty.py").write_text("def test_nothing(): ...\n")
        seconds(folder)
        pairs = [(seconds(folder), seconds(folder, "-p", "no:llmperf")) for _ in range(rounds)]
    with_it, without = (median(side) * 1e3 for side in zip(*pairs, strict=True))
    added = median(one - other for one, other in pairs) * 1e3
    print(f"with the plugin {with_it:.0f} ms, without {without:.0f} ms, added {added:+.1f} ms")


if __name__ == "__main__":
    main()
