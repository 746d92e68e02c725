"""``--llmperf-keep-servers``: what it does to a session's results, and how the servers end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.campaign import CampaignResult
from pytest_llmperf.engines import ENGINES
from pytest_llmperf.errors import ServerStopError
from pytest_llmperf.launch.settings import Keep
from pytest_llmperf.launch.shelf import KeptServer, Shelf, end_kept, kept_servers, kept_shelves
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.plugin import options

if TYPE_CHECKING:
    from pathlib import Path

CAVEAT = (
    "kept server (--llmperf-keep-servers): it may have run before and runs on, so its launches are "
    "not launches; for writing tests, never a night"
)
STOP = "pytest --llmperf-stop-servers"


def folder_of(config: pytest.Config) -> Path:
    """Return where kept servers are told of."""
    return options.home(config) / ".llmperf" / "servers"


def keep_of(config: pytest.Config) -> Keep | None:
    """Return how servers are kept, None where they are not."""
    if not options.value(config, "keep-servers"):
        return None
    return Keep(folder_of(config), options.value(config, "keep-timeout"))


def marked(result: CampaignResult, servers: tuple[ServerSpec, ...]) -> CampaignResult:
    """Return the result with the caveat on every traffic, if any of its servers is kept."""
    if not any(ENGINES[server.engine].managed for server in servers):
        return result
    traffics = {
        name: replace(traffic, notes=(*traffic.notes, CAVEAT))
        for name, traffic in result.traffics.items()
    }
    return replace(result, traffics=traffics)


def kept_lines(config: pytest.Config) -> list[str]:
    """Return a line for each server that runs on, and how they end."""
    keep = keep_of(config)
    if keep is None:
        return []
    lines = [
        f"kept: server {server.name}, pid {server.pid[0]}, port {server.target.port}, until it is "
        f"{server.idle / 60:.3g} min without a session"
        for server in kept_servers(keep.folder)
    ]
    lines += [
        f"kept: server {shelf.name}, unless it has ended: {shelf.state} is unreadable"
        for shelf in kept_shelves(keep.folder)
        if shelf.unreadable
    ]
    return [*lines, f"{STOP} ends them now"] if lines else []


def stop_servers(config: pytest.Config, say: Callable[[str], object] = sys.stdout.write) -> int:
    """End every kept server of this project; return the exit status.

    One whose state cannot be read too: another version of this package may have kept it.
    """
    folder = folder_of(config)
    shelves = [(name, shelf) for shelf in kept_shelves(folder) if (name := _told(shelf))]
    status = pytest.ExitCode.OK
    for name, shelf in shelves:
        try:
            ended = end_kept(shelf, options.value(config, "stop-timeout"))
        except ServerStopError as error:
            say(f"llmperf: {error}\n")
            status = pytest.ExitCode.TESTS_FAILED
            continue
        if not ended:
            say(f"{name} is not free: {shelf.holder} has it. Wait for that, or end it\n")
            status = pytest.ExitCode.TESTS_FAILED
        else:
            say(f"{name} was ended\n")
    if not shelves:
        say(f"llmperf: no kept server runs ({folder})\n")
    return status


def _told(shelf: Shelf) -> str | None:
    """Return how the server of a shelf is called; None where none can live."""
    if shelf.unreadable:
        return f"llmperf: kept server {shelf.name} (its state is unreadable: {shelf.state})"
    server = KeptServer.read(shelf.state)
    if server is None or not server.lives:
        return None
    return f"llmperf: kept server {server.name} (pid {server.pid[0]})"
