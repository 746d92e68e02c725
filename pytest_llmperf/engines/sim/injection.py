"""Faults as they happen: counts requests, keeps the time, and breaks what was asked for."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

from pytest_llmperf.engines.sim.connection import LAST_CHUNK, Connection
from pytest_llmperf.engines.sim.log import CORE
from pytest_llmperf.engines.sim.replies import DONE, chunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_llmperf.engines.sim.core import EngineCore, Finish, Reply
    from pytest_llmperf.engines.sim.faults import EndKind, Faults, Treatment
    from pytest_llmperf.engines.sim.log import Log

DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
CRASH_STATUS = 1
ERROR = {"message": DEAD, "type": "InternalServerError", "param": None, "code": 500}


class Injector:
    """Injects ``faults`` into a running server. Time begins when it is made: the server is ready.

    ``silent`` is true once the whole process hangs: then nothing may be answered.
    """

    def __init__(
        self, faults: Faults, core: EngineCore, log: Log, clock: Callable[[], float]
    ) -> None:
        self.silent = False
        self._faults = faults
        self._core = core
        self._log = log
        self._clock = clock
        self._ready = clock()
        self._requests = 0
        if any(fault.kind == "throttle" for fault in faults.faults):
            core.throttle = self._throttle
        for seconds, kind in faults.timed_ends():
            asyncio.get_running_loop().call_later(seconds, self._end, kind)

    def receive(self, *, chat: bool) -> Treatment:
        """Count a generation that comes in and return what happens to it.

        Where the server ends with it, that happens here.
        """
        self._requests += 1
        elapsed = self._clock() - self._ready
        treatment = self._faults.treatment(self._requests, elapsed, chat=chat)
        if treatment.end is not None:
            self._end(treatment.end)
        return treatment

    def _throttle(self) -> float:
        return self._faults.throttle(self._requests, self._clock() - self._ready)

    def _end(self, kind: EndKind) -> None:
        if kind == "crash":
            crash(self._log)
        self._core.halt()
        self.silent = self.silent or kind == "hang"


def crash(log: Log) -> None:
    """End the process as a CUDA error ends vLLM, with its lines in the log."""
    source = "core.py:1145"
    for text in (
        "EngineCore encountered a fatal error.",
        "Traceback (most recent call last):",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "CUDA kernel errors might be asynchronously reported at some other API call (SIMULATED)",
    ):
        log.line(CORE, "ERROR", source, text)
    source = "async_llm.py:707"
    log.line("APIServer", "ERROR", source, "AsyncLLM output_handler failed.")
    dead = f"vllm.v1.engine.exceptions.EngineDeadError: {DEAD}"
    log.line("APIServer", "ERROR", source, dead)
    os._exit(CRASH_STATUS)


class BrokenReply:
    """A reply that ends too early: its connection is cut, or an error event ends its stream.

    ``drop`` is called, after the step, with a request that is over though its connection is not.
    """

    def __init__(
        self,
        reply: Reply,
        connection: Connection,
        treatment: Treatment,
        drop: Callable[[], None],
        *,
        stream: bool,
    ) -> None:
        self._reply = reply
        self._connection = connection
        self._cuts = treatment.cut_after is not None
        after = treatment.cut_after if treatment.cut_after is not None else treatment.error_after
        self._after = after or 0
        self._drop = drop
        self._stream = stream
        self._breaks = False
        self._broken = False

    def render(self, tokens: int, new: int, finish: Finish | None, cached: int) -> bytes:
        """Return what the reply sends, up to where it breaks; never its end."""
        if self._broken:
            return b""
        self._breaks = tokens >= self._after or finish is not None
        if not self._breaks:
            return self._reply.render(tokens, new, finish, cached)
        data = self._reply.render(tokens, new, None, cached) if self._after else b""
        return data if self._cuts else data + self._error()

    def send(self, data: bytes, *, last: bool) -> None:
        """Send; with the part where it breaks, end the connection or the response."""
        if self._broken:
            return
        if not self._breaks:
            self._reply.send(data, last=last)
            return
        self._broken = True
        if self._cuts:
            if self._stream:
                self._connection.send(data, last=False)
            self._connection.close()
            return
        if self._stream:
            self._connection.send(data, last=True)
        else:
            self._connection.respond(500, data, "application/json")
        asyncio.get_running_loop().call_soon(self._drop)

    def _error(self) -> bytes:
        body = json.dumps({"error": ERROR}).encode()
        if not self._stream:
            return body
        return chunk(b"data: " + body + b"\n\n") + chunk(DONE) + LAST_CHUNK
