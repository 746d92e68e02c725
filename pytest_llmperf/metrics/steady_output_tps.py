"""Output throughput at full load: ``steady_output_tps``, in tok/s, higher is better.

Formula: tokens of completed requests that came inside the window, over the window, which goes
from the first to the last moment at which at least 95 % of the largest number of requests were
in flight: ramp and drain are left out, the short gaps of a closed loop between a response and
the next request are not. Absent where that window is shorter than a tenth of the replay: a
load that touches its largest concurrency for a moment has no steady state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_llmperf.metrics._records import NS_A_S, chunks, completed, duration_s, in_flight
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay

FULL_PERCENT = 95
LEAST_SHARE = 0.10


def value(replay: Replay) -> float | None:
    """Return output tokens a second in the window; None where there is none."""
    duration = duration_s(replay)
    records = completed(replay)
    if duration is None or not records:
        return None
    times, running = in_flight(replay)
    if running.max() < 1:
        return None
    full = np.flatnonzero(running * 100 >= running.max() * FULL_PERCENT)
    start, end = int(times[full[0]]), int(times[full[-1] + 1])
    window = (end - start) / NS_A_S
    if window < LEAST_SHARE * duration:
        return None
    ns, tokens = chunks(records)
    return float(tokens[(ns > start) & (ns <= end)].sum()) / window


METRIC = Scalar(
    "steady_output_tps",
    "Output throughput at full load",
    "tok/s",
    Better.HIGHER,
    value,
    throughput=True,
)
