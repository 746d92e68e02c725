"""Requests reduced: the same quantiles, the same tokens, in a few thousand numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_llmperf.model.record import RequestRecord
from pytest_llmperf.report.series import GRID, Sample, reduced, timeline

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000


def test_few_values_are_kept_as_they_are() -> None:
    """Median of 1, 2, 3, 10 is 2.5 and their mean 4."""
    sample = Sample.of([3.0, 1.0, 10.0, 2.0])
    assert (sample.count, sample.mean) == (4, 4.0)
    assert float(sample.quantile(0.5)) == 2.5
    assert float(sample.quantile(1.0)) == 10.0


def test_many_values_keep_their_quantiles() -> None:
    """Of 0 … 99,999 in any order p99 is 98,999 within half a grid's step; so is the mean."""
    values = np.random.default_rng(1).permutation(100_000).astype(float)
    sample = Sample.of(values)
    assert len(sample.points) == GRID
    assert sample.mean == 49_999.5
    assert float(sample.quantile(0.99)) == pytest.approx(98_999, abs=25)


def test_pooled_values_weigh_the_same() -> None:
    """Ten small values among 90,000 large ones do not move the median."""
    few, many = Sample.of([1.0] * 10), Sample.of(np.full(90_000, 5.0))
    pooled = Sample.pooled([few, many])
    assert pooled.count == 90_010
    assert float(pooled.quantile(0.5)) == 5.0
    assert pooled.mean == pytest.approx((10 + 450_000) / 90_010)


def test_small_samples_are_pooled_exactly() -> None:
    """1, 2 and 3, 4 have the median 2.5; nothing at all has none."""
    pooled = Sample.pooled([Sample.of([1.0, 2.0]), Sample.of([]), Sample.of([3.0, 4.0])])
    assert float(pooled.quantile(0.5)) == 2.5
    empty = Sample.pooled([Sample.of([])])
    assert empty.count == 0
    assert np.isnan(empty.quantile(0.5))


def record(index: int, sent: int, chunks: list[int], tokens: list[int]) -> RequestRecord:
    """Return a request that ends with its last chunk."""
    return RequestRecord(index, sent, sent, chunks, tokens, chunks[-1], sum(tokens))


def test_tokens_and_requests_over_time() -> None:
    """Two requests in 30 s: 6 tokens in second 0, 4 in second 10; both in flight until 10.5 s."""
    line = timeline(
        [
            record(0, 5 * S, [5 * S + S // 2, 35 * S], [6, 1]),
            record(1, 5 * S, [15 * S + S // 2], [4]),
        ]
    )
    assert line is not None
    assert (line.bucket_s, line.duration_s) == (0.25, 30.0)
    assert line.tokens_per_s[2] == 24.0
    assert line.tokens_per_s[42] == 16.0
    assert line.tokens_per_s.sum() * line.bucket_s == 11.0
    assert line.mean == pytest.approx(11 / 30)
    assert (line.in_flight[0], line.in_flight[41], line.in_flight[42]) == (2, 2, 1)
    assert line.peak_in_flight == 2


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(2, 0.1), (12, 0.1), (13, 0.25), (60, 0.5), (120, 1.0), (600, 1.0)]
)
def test_buckets_are_a_second_or_finer(seconds: int, bucket: float) -> None:
    """Up to ten minutes; a short replay is seen more closely."""
    line = timeline([record(0, 0, [seconds * S], [1])])
    assert line is not None
    assert line.bucket_s == bucket


def test_an_hour_has_hundreds_of_buckets_not_thousands() -> None:
    """A page of many long replays must stay small."""
    line = timeline([record(0, 0, [3600 * S], [1])])
    assert line is not None
    assert (line.bucket_s, len(line.tokens_per_s)) == (6.0, 601)


def test_nothing_sent_has_no_time() -> None:
    """Requests that were refused before they were sent draw no line."""
    assert timeline([RequestRecord(0, 0, None, (), (), None, 5, error="refused")]) is None


def test_a_request_without_an_end_counts_until_its_last_chunk() -> None:
    """A stream cut off after 1 s is not in flight for ever."""
    cut = RequestRecord(0, 0, 0, (S,), (1,), None, 5, error="cut off")
    lost = RequestRecord(1, 0, 0, (), (), None, 5, error="timed out")
    line = timeline([cut, lost, record(2, 0, [4 * S], [1])])
    assert line is not None
    assert (line.in_flight[0], line.in_flight[-2]) == (2, 1)


def test_a_replay_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    """The rest of the page is worth having."""
    missing = reduced(tmp_path / "chat-1.json")
    assert missing.ttft.count == 0
    assert missing.error is not None
    assert "chat-1.json cannot be read" in missing.error
