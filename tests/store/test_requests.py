"""Requests as Parquet: what is written is read back, small, and damage is named."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest

from pytest_llmperf.errors import StoreError
from pytest_llmperf.model.record import RequestRecord
from pytest_llmperf.store._requests import requests_from_parquet, requests_to_parquet

if TYPE_CHECKING:
    from pathlib import Path

DONE = RequestRecord(
    index=0,
    due_ns=1_000_000_000,
    sent_ns=1_000_050_000,
    chunk_ns=(1_050_000_000, 1_070_000_000, 1_070_000_000),
    chunk_tokens=(1, 1, 3),
    done_ns=1_071_000_000,
    asked_tokens=5,
    prompt_tokens=512,
    output_tokens=5,
    cached_tokens=16,
    counted_by="usage",
    http_status=200,
    finish_reason="length",
)
REFUSED = RequestRecord(
    index=1,
    due_ns=2_000_000_000,
    sent_ns=None,
    chunk_ns=(),
    chunk_tokens=(),
    done_ns=None,
    asked_tokens=5,
    counted_by="chunk",
    error="connection refused",
)


def test_every_field_comes_back_as_it_was(tmp_path: Path) -> None:
    """A whole request and one that was never sent come back equal, None as None."""
    path = tmp_path / "chat-1.parquet"
    path.write_bytes(requests_to_parquet([DONE, REFUSED]))
    assert requests_from_parquet(path) == (DONE, REFUSED)


def test_no_request_at_all_comes_back_as_none(tmp_path: Path) -> None:
    """An empty replay is no error of the store."""
    path = tmp_path / "chat-1.parquet"
    path.write_bytes(requests_to_parquet([]))
    assert requests_from_parquet(path) == ()


def test_chunks_may_be_any_sequence_of_integers(tmp_path: Path) -> None:
    """What the load process collects in (a list, an array) does not matter to the store."""
    path = tmp_path / "chat-1.parquet"
    records = [
        RequestRecord(0, 0, 0, [10, 20], array("i", [1, 2]), 20, 3),
        RequestRecord(1, 0, 0, np.array([30]), array("q", [1]), 30, 1),
    ]
    path.write_bytes(requests_to_parquet(records))
    chunks = [(r.chunk_ns, r.chunk_tokens) for r in requests_from_parquet(path)]
    assert chunks == [((10, 20), (1, 2)), ((30,), (1,))]


def test_a_million_events_take_less_than_ten_megabytes(tmp_path: Path) -> None:
    """2,000 requests of 500 tokens, one every 20 ms with 1 ms of jitter: about 3 MB."""
    random = np.random.default_rng(7)
    gaps = 20_000_000 + random.normal(0, 1_000_000, (2000, 500)).astype(np.int64)
    times = 5_000_000_000_000_000 + np.cumsum(gaps, axis=1)
    ones = (1,) * 500
    records = [
        RequestRecord(i, 0, 0, row, ones, int(row[-1]), 500, 512, 500)
        for i, row in enumerate(times)
    ]
    path = tmp_path / "chat-1.parquet"
    path.write_bytes(requests_to_parquet(records))
    assert path.stat().st_size < 5_000_000
    column = pq.read_table(path, columns=["chunk_ns"]).column("chunk_ns").combine_chunks()
    assert np.array_equal(column.values.to_numpy(), times.ravel())


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Half a Parquet file is an error that says which."""
    path = tmp_path / "chat-1.parquet"
    path.write_bytes(requests_to_parquet([DONE])[:100])
    with pytest.raises(StoreError, match=r"chat-1\.parquet is damaged"):
        requests_from_parquet(path)


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """A schema number above ours is an error that says what to read it with."""
    path = tmp_path / "chat-1.parquet"
    path.write_bytes(requests_to_parquet([DONE]))
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"pytest_llmperf.schema": b"2"}), path)
    with pytest.raises(StoreError, match=r"has schema 2 .*reads schema 1"):
        requests_from_parquet(path)
