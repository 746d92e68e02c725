"""What ran: each server's arguments and environment, the machine, versions and options."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from pytest_llmperf.report.section import Section

if TYPE_CHECKING:
    from markupsafe import Markup

    from pytest_llmperf.model.machine import Machine
    from pytest_llmperf.model.server import ServerSpec
    from pytest_llmperf.report.context import Context
    from pytest_llmperf.store.runs import Launch

MACHINE = {
    "gpu_model": "GPU",
    "gpu_count": "GPUs",
    "interconnect": "interconnect",
    "driver_branch": "driver branch",
    "cuda_major": "CUDA",
    "mig": "MIG",
    "power_limit_w": "power limit, W",
    "cpu_model": "CPU",
    "key": "key of its baselines",
}


@dataclass(frozen=True)
class Server:
    """One configuration that ran, and who ran it."""

    spec: ServerSpec
    executables: tuple[str, ...]
    versions: tuple[str, ...]
    options: tuple[str, ...]


def render(context: Context) -> Markup:
    """Return the servers that were ready once, and the run's surroundings."""
    header = context.run.header
    given = {name: value for name, value in header.options.items() if value not in (None, [], "")}
    return context.render(
        "server.html",
        servers=_servers(context.run.launches),
        machine=_machine(header.machine),
        options=given,
    )


def _machine(machine: Machine) -> dict[str, object]:
    """Return what is known of the machine under words a person knows it by."""
    known = {title: getattr(machine, name) for name, title in MACHINE.items()}
    if machine.mig is not None:
        known["MIG"] = "on" if machine.mig else "off"
    return {title: value for title, value in known.items() if value is not None}


def _servers(launches: tuple[Launch, ...]) -> list[Server]:
    ready = [launch for launch in launches if launch.spec is not None]
    servers = []
    for spec in dict.fromkeys(launch.spec for launch in ready):
        of = [launch for launch in ready if launch.spec == spec]
        if spec is None:
            continue
        executables = dict.fromkeys(launch.executable for launch in of if launch.executable)
        versions = dict.fromkeys(
            launch.facts.engine_version
            for launch in of
            if launch.facts and launch.facts.engine_version
        )
        servers.append(Server(spec, tuple(executables), tuple(versions), options(spec.arguments)))
    return servers


def options(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line's words with each option's values on its line.

    >>> options(("--max-model-len", "8192", "--enforce-eager"))
    ('--max-model-len 8192', '--enforce-eager')
    """
    number = 0
    numbered = []
    for word in arguments:
        number += word.startswith("-") and not word.lstrip("-").replace(".", "", 1).isdigit()
        numbered.append((number, word))
    return tuple(
        " ".join(word for _, word in group) for _, group in groupby(numbered, lambda pair: pair[0])
    )


SECTION = Section("Servers and machine", 70, render)
