"""Attaching to a server that runs already: nothing is started or stopped."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from pytest_llmperf.engines.attach import SERVED
from pytest_llmperf.errors import ServerDiedError, ServerError, ServerStartError, UsageError
from pytest_llmperf.launch.address import target_from_url
from pytest_llmperf.launch.readiness import (
    NotReadyError,
    Wait,
    complete_facts,
    wait_until_ready,
)
from pytest_llmperf.launch.running import RunningServer
from pytest_llmperf.model.arguments import argument
from pytest_llmperf.model.launch import LaunchFacts, Target

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from pytest_llmperf.launch.settings import LaunchSettings
    from pytest_llmperf.model.server import ServerSpec

ANSWER_WITHIN_S = 30.0
"""Seconds for a server that runs already to answer its first request."""
KNOCK_EVERY_S = 1.0


class Attached:
    """One visit to a server at a URL."""

    def __init__(self, spec: ServerSpec, folder: Path, settings: LaunchSettings) -> None:
        self._spec = spec
        self._log = folder / "server.log"
        self._base_url = settings.base_url
        self._api_key = settings.api_key
        self._patience_s = min(ANSWER_WITHIN_S, settings.startup_timeout)
        self._wanted = tuple(
            dict.fromkeys(
                name
                for name in (
                    argument(spec.arguments, "--served-model-name"),
                    settings.models.get(spec.model),
                    spec.model,
                )
                if name and name != SERVED
            )
        )

    def __enter__(self) -> RunningServer:
        if not self._base_url:
            raise UsageError(
                f"server {self._spec.name!r}: engine attach needs to know where the server runs: "
                "--llmperf-base-url http://HOST:PORT"
            )
        address = target_from_url(self._base_url, api_key=self._api_key)
        self._log.write_text(f"attached to {address.base_url}; its log is where it runs\n")
        wait = Wait(time.monotonic() + self._patience_s, time.sleep, health_needed=False)
        try:
            target = wait_until_ready(address, self._wanted, wait)
        except NotReadyError as error:
            raise ServerStartError(
                f"server {self._spec.name!r} at {address.base_url} does not serve: {error}. Start "
                "it, or correct --llmperf-base-url"
            ) from None
        except ServerError as error:
            raise ServerStartError(
                f"server {self._spec.name!r}: {error}. If it asks for a key, set LLMPERF_API_KEY"
            ) from None
        return RunningServer(
            spec=self._spec,
            target=target,
            facts=complete_facts(LaunchFacts(), target),
            log=self._log,
            pid=None,
            executable=None,
            check=_Knock(self._spec, target),
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


class _Knock:
    """Sees whether anybody listens. Called often, it connects once a second."""

    def __init__(self, spec: ServerSpec, target: Target) -> None:
        self._spec = spec
        self._target = target
        self._last = 0.0

    def __call__(self) -> None:
        if time.monotonic() - self._last < KNOCK_EVERY_S:
            return
        self._last = time.monotonic()
        try:
            socket.create_connection((self._target.host, self._target.port), 5.0).close()
        except TimeoutError:
            return  # a full backlog is load, not death
        except OSError as error:
            raise ServerDiedError(
                f"server {self._spec.name!r} at {self._target.base_url} is gone: {error}"
            ) from None
