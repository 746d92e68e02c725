"""The server of ``llm_server``: running until another one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

import pytest

from pytest_llmperf.errors import LlmPerfError
from pytest_llmperf.launch import RunningServer
from pytest_llmperf.model.server import ServerSpec


class OwnServer:
    """At most one at a time; ``start`` gets the server and how many were started before it."""

    def __init__(
        self, start: Callable[[ServerSpec, int], AbstractContextManager[RunningServer]]
    ) -> None:
        self._start = start
        self._stack = ExitStack()
        self._running: RunningServer | None = None
        self._started = 0

    def running(self, server: ServerSpec) -> RunningServer:
        """Return it, running; a test whose server does not run fails."""
        try:
            if self._running is None or self._running.spec != server:
                self.stop()
                self._started += 1
                self._running = self._stack.enter_context(self._start(server, self._started))
            self._running.check_alive()
        except LlmPerfError as error:
            self._running = None
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        return self._running

    def stop(self) -> None:
        """End it, if there is one."""
        self._running = None
        self._stack.close()
