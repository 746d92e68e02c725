"""Text to tokens and back, without a tokenizer.

A token is four bytes of UTF-8, the usual average for English with a vocabulary of 150,000.
Equal beginnings give equal tokens, so that prompts share prefixes as they do with a real one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BYTES_PER_TOKEN = 4
VOCABULARY = 151_936
TEMPLATE_TOKENS = 4
"""What a chat template adds a message: its beginning, the role, a line break and its end."""
GENERATION_TOKENS = 3
"""What it adds for the answer to begin."""
WORDS = (
    *(" the", " of", " and", " to", " in", " a", " is", " that", " for", " it", " as", " was"),
    *(" with", " be", " by", " on", " not", " he", " his", " but", " at", " are", " this"),
    *(" have", " from", " or", " had", " an", " they", " which", " one", " you", " were"),
    *(" all", " her", " she", " there", " would", " their", " we", " him", " been", " has"),
    *(" when", " who", " will", " no", " more", " if", " out", " so", " up", " said", " what"),
    *(" its", " about", " than", " into", " them", " can", " only", " other", " time", " new"),
)
"""What a generated token decodes to: plain words that need no escaping in JSON."""


def count_tokens(text: str) -> int:
    """Return the number of tokens of ``text``."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def encode(text: str) -> list[int]:
    """Return the token ids of ``text``."""
    data = text.encode()
    return [
        int.from_bytes(data[start : start + BYTES_PER_TOKEN], "little") % VOCABULARY
        for start in range(0, len(data), BYTES_PER_TOKEN)
    ]


def count_chat_tokens(texts: Sequence[str]) -> int:
    """Return the number of tokens of a conversation with its template, one text a message."""
    return GENERATION_TOKENS + sum(TEMPLATE_TOKENS + count_tokens(text) for text in texts)


def word(position: int) -> str:
    """Return the text of the generated token at ``position``, from 0."""
    return WORDS[position % len(WORDS)]
