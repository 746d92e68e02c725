"""An engine whose server is a script of the tests, and looks at what is left of it."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.engines import Command, Place
from pytest_llmperf.engines._vllm_log import read_facts, read_failure
from pytest_llmperf.launch import family
from pytest_llmperf.launch.settings import Keep, LaunchSettings
from pytest_llmperf.launch.shelf import end_kept, kept_shelves
from pytest_llmperf.model.server import ServerSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_llmperf.model.launch import LaunchFacts

FAKE_SERVER = Path(__file__).parent / "fake_server.py"


@dataclass(frozen=True)
class FakeEngine:
    """Starts ``fake_server.py`` and reads its log as vLLM's."""

    simulated: bool = True
    managed: bool = True
    uses_gpu: bool = False
    script: Path = FAKE_SERVER

    def check(self, spec: ServerSpec, place: Place) -> None:
        pass

    def command(self, spec: ServerSpec, place: Place) -> Command:
        bound = ("--host", place.host, "--port", str(place.port))
        key = {"VLLM_API_KEY": place.api_key} if place.api_key else {}
        argv = (sys.executable, "-S", str(self.script), place.model, *spec.arguments, *bound)
        return Command(argv, key)

    def facts(self, log: str) -> LaunchFacts:
        return read_facts(log)

    def failure(self, log: str) -> str | None:
        return read_failure(log)

    def phase(self, log: str) -> str | None:
        return log.splitlines()[-1] if log else None


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def settings() -> LaunchSettings:
    """Short times: what hangs in a test is to be noticed."""
    return LaunchSettings(startup_timeout=60, stop_timeout=10)


@pytest.fixture
def shelves(tmp_path: Path) -> Iterator[Path]:
    """The folder of kept servers; what a test leaves there is ended after it."""
    folder = tmp_path / "servers"
    yield folder
    for shelf in kept_shelves(folder):
        assert end_kept(shelf, 5)


@pytest.fixture
def keeping(settings: LaunchSettings, shelves: Path) -> LaunchSettings:
    """Settings that keep servers for a minute."""
    return replace(settings, keep=Keep(shelves, idle=60.0))


@pytest.fixture
def fake() -> Callable[..., ServerSpec]:
    """Return a spec of a fake server with the misbehaviour asked for."""

    def build(*arguments: str, name: str = "fake", **environment: str) -> ServerSpec:
        return ServerSpec.of(name, "fake", "some/model", arguments, environment)

    return build


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """Return a function: whether a process ends within ten seconds."""

    def look(pid: int, within: float = 10.0) -> bool:
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            process = family.member(pid)
            if process is None or not process.alive:
                return True
            time.sleep(0.02)
        return False

    return look


@pytest.fixture
def appeared() -> Callable[[Path], str]:
    """Return a function: a file's text once it has some."""

    def look(path: Path, within: float = 30.0) -> str:
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if path.exists() and (text := path.read_text()):
                return text
            time.sleep(0.02)
        raise AssertionError(f"{path} did not appear")

    return look


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that leaves a process: all that it starts carry its folder as a mark."""
    monkeypatch.setenv("LLMPERF_TEST", str(tmp_path))
    yield
    left = [
        process for process in family.everyone() if process.alive and _carries(process, tmp_path)
    ]
    for process in left:
        family.send(process, signal.SIGKILL)
    assert left == []


def _carries(process: family.Member, folder: Path) -> bool:
    try:
        environment = (family.PROC / str(process.pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"LLMPERF_TEST={folder}".encode() in environment.split(b"\0")
