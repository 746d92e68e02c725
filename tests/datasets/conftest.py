"""A tokenizer whose counts a reader can see, and files of conversations."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Words:
    """One token a word."""

    name: str = "words"

    def count(self, text):
        return len(text.split())


@pytest.fixture
def tokenizer():
    return Words()


@pytest.fixture
def talk():
    """Make a conversation whose turns have that many words each: ``talk("a", 5, 9)``."""

    def make(label, *lengths):
        turns = [
            {
                "from": ("human", "gpt")[turn % 2],
                "value": " ".join(f"{label}.{turn}.{word}" for word in range(length)),
            }
            for turn, length in enumerate(lengths)
        ]
        return {"id": label, "conversations": turns}

    return make


@pytest.fixture
def sixty(talk):
    """Sixty conversations: prompts of 1 to 60 words, answers of 60 to 1."""
    return [talk(f"c{i}", 1 + i, 60 - i) for i in range(60)]


@pytest.fixture
def write(tmp_path):
    """Write records as a JSON file, cut to its first ``keep`` bytes, and return its path."""

    def make(records, keep=None):
        path = tmp_path / "talk.json"
        path.write_bytes(json.dumps(records).encode()[:keep])
        return str(path)

    return make
