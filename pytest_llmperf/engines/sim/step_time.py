"""How long a step takes, and the noise on it.

``StepTime`` is the seam: ``RooflineStepTime`` computes it for a GPU, ``FixedStepTime`` is told.
docs/simulator.md says what is modelled and how near it comes to measurements.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pytest_llmperf.engines.sim.forward import ForwardTime
from pytest_llmperf.engines.sim.gpus import GPUS
from pytest_llmperf.engines.sim.memory import value_bytes
from pytest_llmperf.engines.sim.shapes import shape_of, weights_of

if TYPE_CHECKING:
    from pytest_llmperf.engines.sim.gpus import Efficiency
    from pytest_llmperf.engines.sim.options import SimOptions
    from pytest_llmperf.engines.sim.scheduler import Batch
    from pytest_llmperf.engines.sim.speculation import Speculation

DEFAULT_STEP_MS = 9.0
DEFAULT_PREFILL_US = 20.0
"""What is not said where only one of the two fixed times is."""
KNOWN_SALTS = 256
"""Cache salts remembered at once: a replay sends one, and a few overlap at most."""


class StepTime(Protocol):
    """Says how long a step takes on the hardware that is simulated, without noise."""

    def seconds(self, batch: Batch[Any]) -> float:
        """Return the seconds that the engine needs for ``batch``."""


@dataclass(frozen=True, slots=True)
class FixedStepTime:
    """``step_s`` for every step, whatever runs in it, plus ``prefill_s`` a prefill token."""

    step_s: float
    prefill_s: float

    def seconds(self, batch: Batch[Any]) -> float:
        """Return the seconds that the engine needs for ``batch``."""
        return self.step_s + self.prefill_s * batch.prefill_tokens


class RooflineStepTime:
    """A step on a GPU: the target's forward pass, the host's part of it, and the drafts.

    The host works behind the GPU; with speculation the one waits for the other. Without CUDA
    graphs (``eager``) the host launches every layer; drafts are always launched so, one pass a
    draft token. ``--async-scheduling`` changes nothing here (docs/simulator.md says why).
    """

    def __init__(
        self,
        target: ForwardTime,
        efficiency: Efficiency,
        *,
        eager: bool = False,
        speculation: Speculation | None = None,
        draft: ForwardTime | None = None,
    ) -> None:
        self._target = target
        self._host = efficiency
        self._eager = eager
        self._speculation = speculation
        self._draft = draft

    def seconds(self, batch: Batch[Any]) -> float:
        """Return the seconds that the engine needs for ``batch``."""
        before = [sequence.computed for sequence in batch.sequences]
        rows = len(batch.sampling) + sum(batch.drafted)
        gpu_s = self._target.seconds(batch.tokens, before, rows)
        launch_s = self._target.launch_s if self._eager else 0.0
        if self._speculation is None:
            return max(gpu_s, self._host.host_step_s + launch_s)
        return max(gpu_s, launch_s) + self._host.host_step_s + self._drafting_s(batch, before)

    def _drafting_s(self, batch: Batch[Any], before: list[int]) -> float:
        """Return the seconds until every sequence that samples has its drafts.

        The first pass takes what the target computed too, each other one a token a sequence.
        """
        sampling = batch.sampling
        if self._speculation is None or not sampling:
            return 0.0
        if self._draft is None:
            return self._host.host_lookup_s * len(sampling)
        first = self._draft.seconds(batch.tokens, before, len(sampling))
        contexts = [sequence.known for sequence in sampling]
        other = self._draft.seconds([1] * len(sampling), contexts, len(sampling))
        launch_s = self._draft.launch_s
        passes = max(first, launch_s) + (self._speculation.tokens - 1) * max(other, launch_s)
        return passes + self._speculation.tokens * self._host.host_step_s


def step_time_of(options: SimOptions) -> StepTime:
    """Return what the arguments ask for: a GPU's step time, or a fixed one."""
    if options.step_ms is not None or options.prefill_us_per_token is not None:
        step_ms = DEFAULT_STEP_MS if options.step_ms is None else options.step_ms
        prefill_us = options.prefill_us_per_token
        prefill_us = DEFAULT_PREFILL_US if prefill_us is None else prefill_us
        return FixedStepTime(step_ms / 1e3, prefill_us / 1e6)
    gpu = GPUS[options.gpu]
    link = gpu.interconnect(options.interconnect)
    gpus, size = options.tensor_parallel_size, value_bytes(options)
    weights = weights_of(options.model, options.quantization)
    speculation = options.speculation
    draft = None
    if speculation is not None and speculation.draft is not None:
        draft = ForwardTime(speculation.draft, speculation.weights, gpu, link, gpus, size)
    return RooflineStepTime(
        ForwardTime(shape_of(options.model), weights, gpu, link, gpus, size),
        gpu.efficiency,
        eager=options.enforce_eager,
        speculation=speculation,
        draft=draft,
    )


class Pace:
    """The factor on every step time: a slowdown, and noise in the two levels that GATE.md has.

    Both are log-normal, exp(N(0, sd)). ``launch`` is drawn once. A replay's factor is drawn
    when its ``cache_salt`` is first seen, so that with a seed the n-th replay of a launch has
    the same factor in every launch, whatever its salt is.
    """

    def __init__(
        self, slowdown: float, launch_sd: float, replay_sd: float, seed: int | None
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311 - noise, not a secret
        self._replay_sd = replay_sd
        self._salts: dict[str, float] = {}
        self.launch = slowdown * math.exp(self._random.gauss(0.0, launch_sd))

    def replay(self, salt: str | None) -> float:
        """Return the factor of requests with that ``cache_salt``; without one it is 1."""
        if salt is None:
            return 1.0
        if salt not in self._salts:
            if len(self._salts) >= KNOWN_SALTS:
                del self._salts[next(iter(self._salts))]
            self._salts[salt] = math.exp(self._random.gauss(0.0, self._replay_sd))
        return self._salts[salt]
