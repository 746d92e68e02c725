"""Machine: what must match for two results to be comparable."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass


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

    @property
    def key(self) -> str:
        """A folder name a person can read, with a digest of all fields: ``h200x1-580-1f0c``."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:8]
        what = f"{self.gpu_model} x{self.gpu_count or 1}" if self.gpu_model else self.cpu_model
        words = re.sub(r"[^a-z0-9]+", "-", (what or "unknown").lower()).strip("-")[:40].strip("-")
        return f"{'simulated-' if self.simulated else ''}{words}-{digest}"

    def differences(self, other: Machine) -> list[str]:
        """Return ``field: here → there`` for every field that differs."""
        mine, theirs = asdict(self), asdict(other)
        return [f"{k}: {mine[k]} → {theirs[k]}" for k in mine if mine[k] != theirs[k]]
