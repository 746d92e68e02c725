"""A server that died is told as that, not as the requests that found nobody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_llmperf.errors import ReplayError, ServerDiedError, ServerError
from pytest_llmperf.launch import RunningServer

DEATH_TOLD_S = 2.0
"""A server's sockets close before its end is told: so long is that waited for, after an error."""


@contextmanager
def death_first(running: RunningServer) -> Iterator[None]:
    """Let the server's death, with its log's reason, be the error where it is behind another.

    Raise ServerDiedError then, the body's own error otherwise.
    """
    try:
        yield
    except ServerDiedError:
        raise
    except (ServerError, ReplayError):
        until = time.monotonic() + DEATH_TOLD_S
        while time.monotonic() < until:
            running.check_alive()
            time.sleep(0.05)
        raise
