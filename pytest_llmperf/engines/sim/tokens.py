"""Text to tokens and back, without a tokenizer, and what an answer says.

A token is four bytes of UTF-8, the usual average for English with a vocabulary of 150,000.
Equal beginnings give equal tokens, so that prompts share prefixes as they do with a real one.
Generated words have four bytes each: an answer sent back in the next turn of a chat encodes to
the ids that were generated, and its KV blocks are found again.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BYTES_PER_TOKEN = 4
VOCABULARY = 151_936
MESSAGE_START, MESSAGE_END, LINE_BREAK = 151_644, 151_645, 198
"""A chat template's own tokens: a message is start, role, line break, text and end."""
ANSWERING_ROLE = "assistant"
TEXT = (
    " the and was for not his but are had one you all her she has who out its can new now any may"
    " two use way day man did get own say see our how too old men let put end why set far big off"
    " air yes few ask car run try eye job lot act age map art red top box sky"
)
WORDS = tuple(TEXT[at : at + BYTES_PER_TOKEN] for at in range(0, len(TEXT), BYTES_PER_TOKEN))
"""What a generated token decodes to: plain words that need no escaping in JSON."""

MASK = 2**64 - 1
Manner = Literal["usual", "repeat", "empty"]


def encode(text: str) -> list[int]:
    """Return the token ids of ``text``; a last token may be begun."""
    data = text.encode()
    count = -(-len(data) // BYTES_PER_TOKEN)
    padded = data.ljust(count * BYTES_PER_TOKEN, b"\0")
    return [number % VOCABULARY for number in struct.unpack(f"<{count}I", padded)]


def encode_chat(messages: Iterable[tuple[str, str]]) -> list[int]:
    """Return the token ids of a conversation of (role, text), up to where the answer begins."""
    ids: list[int] = []
    for role, text in messages:
        ids += (MESSAGE_START, _role(role), LINE_BREAK)
        ids += encode(text)
        ids.append(MESSAGE_END)
    ids += (MESSAGE_START, _role(ANSWERING_ROLE), LINE_BREAK)
    return ids


def decode(ids: Iterable[int]) -> str:
    """Return a text for token ids: the true one for generated tokens, filler for others."""
    return "".join(WORDS[WORD_OF.get(token, token % len(WORDS))] for token in ids)


def pack(ids: Sequence[int]) -> bytes:
    """Return four bytes a token, to hash."""
    return struct.pack(f"<{len(ids)}I", *ids)


def seed_of(packed: bytes) -> int:
    """Return the seed of the answer to a prompt: the same in every process, on every machine."""
    return int.from_bytes(blake2b(packed, digest_size=8).digest(), "little")


def mix(seed: int, position: int) -> int:
    """Return 64 bits that depend on both, evenly spread (the finaliser of SplitMix64)."""
    bits = (seed + (position + 1) * 0x9E3779B97F4A7C15) & MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


@dataclass(frozen=True, slots=True)
class Script:
    """What an answer says at each position: it follows from ``seed``, that of the prompt.

    So one prompt always has one answer, whatever the sampling parameters are, and another has
    another. ``manner`` is what is wrong with it: one word over and over, or no text.
    """

    seed: int
    manner: Manner = "usual"

    def indices(self, start: int, end: int) -> list[int]:
        """Return the words' numbers from position ``start`` to before ``end``."""
        if self.manner == "repeat":
            return [0] * (end - start)
        return [mix(self.seed, position) % len(WORDS) for position in range(start, end)]

    def ids(self, start: int, end: int) -> list[int]:
        """Return the token ids from position ``start`` to before ``end``."""
        return [WORD_IDS[index] for index in self.indices(start, end)]

    def text(self, start: int, end: int) -> str:
        """Return their text."""
        if self.manner == "empty":
            return ""
        return "".join([WORDS[index] for index in self.indices(start, end)])


def script(packed: bytes, manner: Manner = "usual", variant: int = 0) -> Script:
    """Return the answer to a prompt of ``packed`` ids; ``variant`` 0 is the usual one."""
    seed = seed_of(packed)
    return Script(mix(seed, variant) if variant else seed, manner)


def _role(role: str) -> int:
    """Return a role's token: always one, its first four bytes."""
    return (encode(role[:BYTES_PER_TOKEN]) or [0])[0]


WORD_IDS = tuple(encode(word)[0] for word in WORDS)
WORD_OF = {token: index for index, token in enumerate(WORD_IDS)}
