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
from pytest_llmperf.launch.shelf import end_kept, kept_servers
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
    servers = kept_servers(keep.folder) if keep is not None else ()
    if keep is None or not servers:
        return []
    lines = [
        f"kept: server {server.name}, pid {server.pid[0]}, port {server.target.port}"
        for server in servers
    ]
    return [*lines, f"{STOP} ends them; so do {keep.idle / 60:.3g} min without a session"]


def stop_servers(config: pytest.Config, say: Callable[[str], object] = sys.stdout.write) -> int:
    """End every kept server of this project; return the exit status."""
    folder = folder_of(config)
    servers = kept_servers(folder)
    status = pytest.ExitCode.OK
    for server in servers:
        name = f"llmperf: kept server {server.name} (pid {server.pid[0]})"
        try:
            ended = end_kept(folder, server, options.value(config, "stop-timeout"))
        except ServerStopError as error:
            say(f"llmperf: {error}\n")
            status = pytest.ExitCode.TESTS_FAILED
            continue
        if not ended:
            say(f"{name} is used by another session: end that first\n")
            status = pytest.ExitCode.TESTS_FAILED
        else:
            say(f"{name} was ended\n")
    if not servers:
        say(f"llmperf: no kept server runs ({folder})\n")
    return status
