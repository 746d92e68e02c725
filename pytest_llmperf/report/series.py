"""A replay's requests reduced to what a chart can show.

A million events become a few thousand numbers as soon as they are read, so that a night of
long replays neither fills the memory nor the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from pytest_llmperf.errors import StoreError
from pytest_llmperf.metrics import METRICS
from pytest_llmperf.store.runs import read_replay

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pytest_llmperf.model.metric import Distribution
    from pytest_llmperf.model.record import Replay, RequestRecord

Numbers = npt.NDArray[np.float64]

EXACT = 5_000
"""Up to so many values are kept as they are."""
GRID = 2_001
BUCKETS_S = (0.1, 0.25, 0.5, 1.0)
MOST_BUCKETS = 120


@dataclass(frozen=True, eq=False)
class Sample:
    """Many values by ``points``, sorted: all of them, or evenly spaced quantiles."""

    count: int
    total: float
    points: Numbers

    @classmethod
    def of(cls, values: Iterable[float]) -> Sample:
        """Keep what there is of ``values``; exact up to 5,000 of them."""
        array = np.sort(np.fromiter(values, np.float64))
        points = array if len(array) <= EXACT else np.quantile(array, np.linspace(0, 1, GRID))
        return cls(len(array), float(array.sum()), points)

    @classmethod
    def pooled(cls, samples: Sequence[Sample]) -> Sample:
        """Put several together, each value with the same weight."""
        filled = [sample for sample in samples if sample.count]
        count, total = sum(s.count for s in filled), sum(s.total for s in filled)
        if not filled or all(s.count == len(s.points) for s in filled):
            every = np.sort(np.concatenate([s.points for s in filled] or [np.empty(0)]))
            return cls(count, total, every)
        values = np.concatenate([s.points for s in filled])
        weights = np.concatenate([np.full(len(s.points), s.count / len(s.points)) for s in filled])
        order = np.argsort(values, kind="stable")
        share = (np.cumsum(weights[order]) - weights[order] / 2) / count
        return cls(count, total, np.interp(np.linspace(0, 1, GRID), share, values[order]))

    @property
    def mean(self) -> float:
        """The mean of all values, or NaN where there is none."""
        return self.total / self.count if self.count else float("nan")

    def quantile(self, share: float | Numbers) -> Numbers:
        """Return the value(s) that a share of all values does not exceed."""
        if not self.count:
            return np.full(np.shape(share), np.nan)
        return np.asarray(np.quantile(self.points, share))


@dataclass(frozen=True, eq=False)
class Timeline:
    """What went on during the ``duration_s`` of a replay, a value a bucket of ``bucket_s``.

    ``tokens_per_s``: output tokens that arrived in it. ``in_flight``: requests sent and not
    yet ended at its middle.
    """

    bucket_s: float
    duration_s: float
    tokens_per_s: Numbers
    in_flight: npt.NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Output tokens a second over the whole replay."""
        return float(self.tokens_per_s.sum()) * self.bucket_s / self.duration_s

    @property
    def peak_in_flight(self) -> int:
        """The most requests in flight at the middle of a bucket."""
        return int(self.in_flight.max(initial=0))


@dataclass(frozen=True)
class Reduced:
    """One replay without its requests. ``timeline`` is None where nothing was sent.

    ``error``: why its requests could not be read.
    """

    ttft: Sample
    itl: Sample
    timeline: Timeline | None
    error: str | None = None


def reduced(path: Path) -> Reduced:
    """Return what the page shows of the replay stored at ``path``; nothing if it is damaged."""
    try:
        return reduce(read_replay(path))
    except StoreError as error:
        return Reduced(Sample.of(()), Sample.of(()), None, str(error))


def reduce(replay: Replay) -> Reduced:
    """Return what the page shows of a replay."""
    samples = {}
    for name in ("ttft", "itl"):
        metric = cast("Distribution", METRICS[name])
        samples[name] = Sample.of(metric.samples(replay))
    return Reduced(samples["ttft"], samples["itl"], timeline(replay.records))


def timeline(records: Sequence[RequestRecord]) -> Timeline | None:
    """Return output tokens and requests in flight over time, in buckets of 1 s or less.

    Replays longer than 10 minutes get longer buckets, so that a page stays small.
    """
    sent = [record for record in records if record.sent_ns is not None]
    if not sent:
        return None
    starts = np.array([record.sent_ns for record in sent], np.int64)
    chunks = np.concatenate([np.asarray(record.chunk_ns, np.int64) for record in sent])
    tokens = np.concatenate([np.asarray(record.chunk_tokens, np.int64) for record in sent])
    ends = np.array([_end(record) for record in sent], np.int64)
    first = int(starts.min())
    duration = max((max(int(ends.max()), int(chunks.max(initial=first))) - first) / 1e9, 1e-9)
    bucket = _bucket(duration)
    buckets = int(duration / bucket) + 1
    places = ((chunks - first) / (bucket * 1e9)).astype(np.int64)
    arrived = np.bincount(places, weights=tokens, minlength=buckets)[:buckets]
    middles = first + ((np.arange(buckets) + 0.5) * bucket * 1e9).astype(np.int64)
    begun = np.searchsorted(np.sort(starts), middles, side="right")
    ended = np.searchsorted(np.sort(ends), middles, side="right")
    return Timeline(bucket, duration, arrived / bucket, begun - ended)


def _end(record: RequestRecord) -> int:
    if record.done_ns is not None:
        return record.done_ns
    return record.chunk_ns[-1] if len(record.chunk_ns) else cast("int", record.sent_ns)


def _bucket(duration: float) -> float:
    for bucket in BUCKETS_S:
        if duration / bucket <= MOST_BUCKETS:
            return bucket
    return max(BUCKETS_S[-1], float(np.ceil(duration / (5 * MOST_BUCKETS))))
