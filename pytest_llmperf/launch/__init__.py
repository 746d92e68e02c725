"""Launch: one start of a server, from nothing to stopped with its GPU memory free again.

Names are imported when they are asked for, since every supervisor starts through here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_llmperf.launch.address import target_from_url
    from pytest_llmperf.launch.counters import counters_from, restarted, risen
    from pytest_llmperf.launch.launcher import launch, launch_engine
    from pytest_llmperf.launch.machine import read_machine
    from pytest_llmperf.launch.running import RunningServer
    from pytest_llmperf.launch.settings import Host, LaunchSettings
    from pytest_llmperf.launch.who import user_name

HOMES = {
    "Host": "settings",
    "LaunchSettings": "settings",
    "RunningServer": "running",
    "counters_from": "counters",
    "launch": "launcher",
    "launch_engine": "launcher",
    "read_machine": "machine",
    "restarted": "counters",
    "risen": "counters",
    "target_from_url": "address",
    "user_name": "who",
}

__all__ = [
    "Host",
    "LaunchSettings",
    "RunningServer",
    "counters_from",
    "launch",
    "launch_engine",
    "read_machine",
    "restarted",
    "risen",
    "target_from_url",
    "user_name",
]


def __getattr__(name: str) -> Any:
    """Return a name from the module that it lives in."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
