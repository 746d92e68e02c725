"""The process: start up as a server does, serve, and stop when told."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmperf.engines.sim.app import App
from pytest_llmperf.engines.sim.assembly import build_drafting, build_scheduler
from pytest_llmperf.engines.sim.clock import Clock, LoopClock
from pytest_llmperf.engines.sim.connection import Connection
from pytest_llmperf.engines.sim.core import EngineCore, Job
from pytest_llmperf.engines.sim.faults import Faults
from pytest_llmperf.engines.sim.gpus import GPUS
from pytest_llmperf.engines.sim.log import Log
from pytest_llmperf.engines.sim.memory import Budget, StartError, plan_memory
from pytest_llmperf.engines.sim.metrics import Metrics
from pytest_llmperf.engines.sim.options import ArgumentsError, SimOptions, build_parser, parse
from pytest_llmperf.engines.sim.scheduler import Scheduler
from pytest_llmperf.engines.sim.shapes import shape_of
from pytest_llmperf.engines.sim.stats import StatsLog
from pytest_llmperf.engines.sim.step_time import Pace, step_time_of

if TYPE_CHECKING:
    from collections.abc import Sequence

BACKLOG = 2048
SCRATCH_BYTES = 64 * 1024
FLUSH_S = 0.05
"""How long what was written may take to be sent when the server stops."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop. Return the exit status: 2 bad arguments, 1 cannot start, 0 ended."""
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments, os.environ)
    except ArgumentsError as error:
        sys.stderr.write(f"{build_parser().format_usage()}pytest-llmperf sim: {error}\n")
        return 2
    log = Log()
    log.banner(options)
    if not model_exists(options.model):
        log.model_failure(options.model)
        return 1
    with contextlib.closing(_socket(options.host)) as listening:
        try:
            listening.bind((options.host, options.port))
        except OSError as error:
            log.raw(f"OSError: {error}")
            return 1
        return asyncio.run(_serve(options, log, listening))


def model_exists(model: str) -> bool:
    """Return whether ``model`` is a repository's name, or a folder that is there."""
    if not model.startswith(("/", "./", "../", "~")):
        return True
    return Path(model).expanduser().exists()


async def _serve(options: SimOptions, log: Log, listening: socket.socket) -> int:
    faults = Faults.of(options.faults)
    stop = _told_by_signals(ignore_sigterm=faults.ignores_sigterm)
    shape = shape_of(options.model)
    try:
        budget = plan_memory(shape, options)
    except StartError as error:
        log.engine_failure(str(error))
        return 1
    log.configuration(options, shape, budget)
    if faults.dies_at_start:
        log.out_of_memory(GPUS[options.gpu].memory_gib)
        return 1
    if faults.never_starts:
        await stop.wait()
        log.stopping()
        return 0
    for seconds in log.startup(options, budget):
        if await _told_to_stop(stop, seconds):
            log.stopping()
            return 0
    await _run(options, budget, log, listening, stop)
    return 0


def _told_by_signals(*, ignore_sigterm: bool) -> asyncio.Event:
    """Return what is set when the server is told to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    loop.add_signal_handler(signal.SIGTERM, bool if ignore_sigterm else stop.set)
    return stop


async def _run(
    options: SimOptions, budget: Budget, log: Log, listening: socket.socket, stop: asyncio.Event
) -> None:
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    core = _engine(options, budget, log, clock)
    app = App(options, budget, core, log, clock.now)
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    server = await loop.create_server(
        lambda: Connection(app, scratch), sock=listening, backlog=BACKLOG
    )
    # A collection would stop all streams for its time: it has to wait until there are none.
    gc.collect()
    gc.freeze()
    gc.disable()
    log.serving(options.host, listening.getsockname()[1])
    await stop.wait()
    log.stopping()
    server.close()
    for connection in tuple(app.connections):
        connection.close()
    core.close()
    if app.connections:
        await asyncio.sleep(FLUSH_S)


def _engine(options: SimOptions, budget: Budget, log: Log, clock: Clock) -> EngineCore:
    scheduler: Scheduler[Job] = build_scheduler(options, budget)
    pace = Pace(options.slowdown, options.launch_noise, options.replay_noise, options.noise_seed)
    metrics = Metrics(budget.max_model_len, prefix_caching=options.enable_prefix_caching)
    stats = StatsLog(scheduler, metrics, log, on_idle=gc.collect)
    drafting = build_drafting(options)
    step_time = step_time_of(options)
    return EngineCore(scheduler, step_time, pace, metrics, clock, stats.wake, drafting)


def _socket(host: str) -> socket.socket:
    """Return a socket that is bound before anything loads, so that a taken port shows at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return listening


async def _told_to_stop(stop: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()
