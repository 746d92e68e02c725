"""Machine: what must match for two results to be comparable."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

IDENTITY = (
    "gpu_model",
    "gpu_count",
    "interconnect",
    "driver_branch",
    "cuda_major",
    "mig",
    "power_limit_w",
    "cpu_model",
    "simulated",
)
"""What must match, by name. A field that is only recorded stays out of this list."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A host's fingerprint. What could not be read is None and compares as such.

    ``simulated`` keeps the results of the simulated engine away from real ones.
    """

    gpu_model: str | None = None
    gpu_count: int | None = None
    interconnect: str | None = None
    driver_branch: str | None = None
    cuda_major: int | None = None
    mig: bool | None = None
    power_limit_w: int | None = None
    cpu_model: str | None = None
    simulated: bool = False

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Machine:
        """Return the machine that a file tells of. Fields that this version lacks are left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})

    @property
    def identity(self) -> dict[str, Any]:
        """What must match, without the fields that are at their default.

        So a field that a later version adds leaves the keys of all machines without it alone.
        """
        defaults = {field.name: field.default for field in fields(self)}
        values = {name: getattr(self, name) for name in IDENTITY}
        return {name: value for name, value in values.items() if value != defaults[name]}

    @property
    def key(self) -> str:
        """A folder name a person can read, with a digest of what must match.

        For example ``nvidia-h200-x1-1f0c9a3e``.
        """
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:8]
        what = f"{self.gpu_model} x{self.gpu_count or 1}" if self.gpu_model else self.cpu_model
        words = re.sub(r"[^a-z0-9]+", "-", (what or "unknown").lower()).strip("-")[:40].strip("-")
        return f"{'simulated-' if self.simulated else ''}{words}-{digest}"

    def differences(self, other: Machine) -> list[str]:
        """Return ``field: here → there`` for everything that must match and does not."""
        pairs = [(name, getattr(self, name), getattr(other, name)) for name in IDENTITY]
        return [f"{name}: {mine} → {theirs}" for name, mine, theirs in pairs if mine != theirs]
