"""A process that launches a fake server and is then killed.

``launching.py FOLDER [--fork] [--keep SHELVES]``

It writes ``pids``: its own, the server's, the supervisor's, and that of a forked copy.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest import FakeEngine

from pytest_llmperf.launch import LaunchSettings, family, launch_engine
from pytest_llmperf.launch.settings import Keep
from pytest_llmperf.model.server import ServerSpec


def main() -> None:
    folder = Path(sys.argv[1])
    spec = ServerSpec.of("fake", "fake", "some/model", ["--escape", str(folder / "escaped")])
    keep = Keep(Path(sys.argv[3])) if "--keep" in sys.argv else None
    settings = LaunchSettings(startup_timeout=60, stop_timeout=5, keep=keep)
    with launch_engine(FakeEngine(), spec, folder, settings) as running:
        assert running.pid is not None
        server = family.member(running.pid)
        assert server is not None
        # A copy of this process holds the pipe to the supervisor open.
        copy = os.fork() if "--fork" in sys.argv else 0
        if "--fork" in sys.argv and copy == 0:
            time.sleep(600)
        text = f"{os.getpid()} {server.pid} {server.parent} {copy}"
        (folder / "pids.new").write_text(text)
        (folder / "pids.new").rename(folder / "pids")
        time.sleep(600)


main()
