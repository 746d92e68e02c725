"""The simulated server inside the test's own process, on a socket, with steps of 1 ms."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from pytest_llmperf.engines.sim.app import App
from pytest_llmperf.engines.sim.clock import LoopClock
from pytest_llmperf.engines.sim.connection import Connection
from pytest_llmperf.engines.sim.core import EngineCore, Job
from pytest_llmperf.engines.sim.log import Log
from pytest_llmperf.engines.sim.memory import Budget
from pytest_llmperf.engines.sim.metrics import Metrics
from pytest_llmperf.engines.sim.options import parse
from pytest_llmperf.engines.sim.scheduler import Limits, Scheduler
from pytest_llmperf.engines.sim.step_time import FixedStepTime, Pace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_llmperf.engines.sim.drafting import Drafting


class Client:
    """Sends requests, one connection each. ``metrics`` are the server's own."""

    def __init__(self, port: int, metrics: Metrics) -> None:
        self.port = port
        self.metrics = metrics

    async def ask(self, path: str = "/v1/completions", **body: Any) -> bytes:
        """Post a body, by default 3 tokens that ask for 4; return all bytes until the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        if path == "/v1/completions":
            body = {"prompt": [1, 2, 3], "max_tokens": 4, **body}
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\ncontent-type: application/json\r\nconnection: close\r\n"
        writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        try:
            return await asyncio.wait_for(reader.read(), 10)
        finally:
            writer.close()
            await writer.wait_closed()


def served(
    *arguments: str,
    talk: Callable[[Client], Awaitable[Any]],
    drafting: Drafting | None = None,
) -> Any:
    """Return what ``talk`` returns against a server with these arguments."""

    async def run() -> Any:
        options = parse(("Q", "--disable-uvicorn-access-log", *arguments), {})
        metrics = Metrics(1000, prefix_caching=True)
        scheduler: Scheduler[Job] = Scheduler(Limits(8, 1000, 1000))
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        pace = Pace(1.0, 0.0, 0.0, None)
        step_time = FixedStepTime(0.001, 0.0)
        core = EngineCore(scheduler, step_time, pace, metrics, clock, lambda: None, drafting)
        app = App(options, Budget(1.0, 1.0, 1000, 16, 1000), core, Log(), clock.now)
        scratch = memoryview(bytearray(64 * 1024))
        server = await loop.create_server(lambda: Connection(app, scratch), "127.0.0.1", 0)
        try:
            return await talk(Client(server.sockets[0].getsockname()[1], metrics))
        finally:
            core.close()
            server.close()
            for connection in tuple(app.connections):
                connection.close()

    return asyncio.run(run())


def status(answer: bytes) -> int:
    """Return an answer's status."""
    return int(answer.split(b" ", 2)[1])


def document(answer: bytes) -> Any:
    """Return the JSON of an answer that is one document."""
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def events(answer: bytes) -> list[Any]:
    """Return the JSON of a stream's events, without its ``[DONE]``."""
    parts = [part.partition(b"\n\n")[0] for part in answer.split(b"data: ")[1:]]
    return [json.loads(part) for part in parts if part != b"[DONE]"]
