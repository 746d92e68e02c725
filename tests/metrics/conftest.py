"""Records and replays of literal milliseconds."""

from __future__ import annotations

import pytest

from pytest_llmperf.model.record import ClientHealth, Replay, RequestRecord

MS = 1_000_000
HEALTH = ClientHealth(0, 0, 0, cpu_s=0.0, wall_s=1.0, start_s=0.0)


@pytest.fixture
def record():
    """Make a record: ``record(sent, [chunk, ...])``, times in ms, a token a chunk."""

    def make(sent, chunks, tokens=None, **fields):
        tokens = [1] * len(chunks) if tokens is None else tokens
        due, done = fields.pop("due", sent), fields.pop("done", chunks[-1] if chunks else None)
        values = {
            "index": 0,
            "due_ns": round(due * MS),
            "sent_ns": None if sent is None else round(sent * MS),
            "chunk_ns": tuple(round(at * MS) for at in chunks),
            "chunk_tokens": tuple(tokens),
            "done_ns": None if done is None else round(done * MS),
            "asked_tokens": sum(tokens),
            "prompt_tokens": 10,
            "output_tokens": sum(tokens),
        }
        return RequestRecord(**(values | fields))

    return make


@pytest.fixture
def replay():
    """Make a replay of records."""

    def make(*records, offered_rate=None, max_concurrency=None, counters=None):
        return Replay(
            traffic="chat",
            digest="0" * 16,
            records=records,
            offered_rate=offered_rate,
            max_concurrency=max_concurrency,
            clock="process",
            health=HEALTH,
            started_at="2026-11-30T10:00:00+00:00",
            counters=counters,
        )

    return make
