"""Engine ``attach``: a server that runs already. Nothing is started or stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmperf.errors import UsageError
from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.server import ServerSpec

if TYPE_CHECKING:
    from pytest_llmperf.engines import Command, Place

SERVED = "served"
"""As a model: whichever the server serves first."""


def attach(name: str, model: str = "") -> ServerSpec:
    """Describe a server that runs at ``--llmperf-base-url``.

    ``model`` is the id it serves the model under; left out, the first of ``/v1/models``.
    """
    return ServerSpec.of(name, "attach", model or SERVED)


@dataclass(frozen=True)
class Attach:
    """Knows nothing of the server but its URL: no command, no log."""

    simulated: bool = False
    managed: bool = False
    uses_gpu: bool = False

    def check(self, spec: ServerSpec, place: Place) -> None:
        """Accept everything: the server's own answer decides."""

    def command(self, spec: ServerSpec, place: Place) -> Command:
        """Raise UsageError: there is nothing to start."""
        raise UsageError(
            f"server {spec.name!r} runs already at http://{place.host}:{place.port}: "
            "engine attach starts nothing"
        )

    def facts(self, log: str) -> LaunchFacts:
        """Return facts that say nothing: there is no log."""
        del log
        return LaunchFacts()

    def failure(self, log: str) -> None:
        """Return None: there is no log."""


ENGINE = Attach()
