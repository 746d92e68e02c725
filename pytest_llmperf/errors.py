"""Every error this package raises, in one tree.

LlmPerfError
├── UsageError              what was asked cannot be done: fix the suite, option or file
│   ├── UnknownNameError    a name that no catalog knows; answers with the known ones
│   ├── SpecError           a server, traffic or plan that cannot be
│   ├── SloError            a limit that cannot be parsed
│   └── DatasetError        a dataset missing, empty or malformed
├── StoreError              a stored file that cannot be read or must not be written
│   └── BaselineError       a baseline that is corrupt, or newer than this version
├── ServerError             something about a server; names it and its log
│   ├── PortInUseError      the port asked for is taken
│   ├── LeaseError          the GPUs a server needs are not to be had
│   ├── ServerStartError    the server died or hung before it was ready
│   ├── ServerDiedError     the server ended while it was being measured
│   └── ServerStopError     the server, or its memory, did not go away
└── ReplayError             the load could not be sent or its result not be read
    └── StallError          no stream brought a byte for the time set

A message says what happened, to which server, file or test, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LlmPerfError(Exception):
    """The root: catch this to catch whatever this package raises on purpose."""


class UsageError(LlmPerfError):
    """What was asked cannot be done as it stands."""


class UnknownNameError(UsageError):
    """A name that nothing answers to. The message lists the names that exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(sorted(known))
        close = difflib.get_close_matches(name, self.known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        known_names = ", ".join(self.known) or "none"
        super().__init__(f"unknown {kind} {name!r}.{hint} Known: {known_names}")


class SpecError(UsageError):
    """A server, traffic or plan whose values cannot be."""


class SloError(UsageError):
    """A limit that cannot be parsed."""


class DatasetError(UsageError):
    """A dataset that is missing, empty or malformed."""


class StoreError(LlmPerfError):
    """A stored file that cannot be read or must not be written."""


class BaselineError(StoreError):
    """A baseline file that is corrupt, or written by a newer version."""


class ServerError(LlmPerfError):
    """Something went wrong with a server."""


class PortInUseError(ServerError):
    """The port that a server was told to use is taken."""


class LeaseError(ServerError):
    """The GPUs that a server needs are not to be had."""


class ServerStartError(ServerError):
    """A server died, or was not ready in time."""


class ServerDiedError(ServerError):
    """A server ended while it was being measured."""


class ServerStopError(ServerError):
    """A server, a child of it or its GPU memory did not go away."""


class ReplayError(LlmPerfError):
    """The load could not be sent, or its result not be read."""


class StallError(ReplayError):
    """No stream brought a byte for the time that was set."""
