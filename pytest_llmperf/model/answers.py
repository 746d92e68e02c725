"""What a server answered to a traffic's first prompts.

Enough to tell sense from nonsense, and one version's answers from another's.

Fast nonsense is worth nothing, so a measurement whose answers are nonsense is INVALID; answers
that merely differ are said, and judged by nobody: kernels of two versions turn near ties.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

CountedBy = Literal["token ids", "text"]

EXCERPT = 40
"""Characters of an answer that a message quotes."""
REPEATS = 8
"""From this many tokens on an answer that is one token over and over is called so.

Of SmolLM2-135M's greedy answers, 16 forced tokens each, none of 160 to real questions was (on
either endpoint), and 3 of 160 to random token ids."""
SEVERAL = 2
"""One answer alone is never enough: on random token ids a sound model's may be nonsense."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One greedy answer: its token ids where the server gave them, and its text."""

    text: str
    token_ids: tuple[int, ...] | None = None

    @property
    def counted_by(self) -> CountedBy:
        """What the digest is over."""
        return "text" if self.token_ids is None else "token ids"

    @property
    def digest(self) -> str:
        """``ids:`` or ``text:`` and 16 hex digits of a SHA-256: equal where the answers are."""
        if self.token_ids is None:
            kind, content = "text", json.dumps(self.text)
        else:
            kind, content = "ids", json.dumps(self.token_ids)
        return f"{kind}:{hashlib.sha256(content.encode()).hexdigest()[:16]}"

    @property
    def excerpt(self) -> str:
        """The beginning of the text in one printable line."""
        shown = "".join(c if c.isprintable() else " " for c in self.text)
        line = " ".join(shown.split())
        return line if len(line) <= EXCERPT else line[: EXCERPT - 1].rstrip() + "…"

    @property
    def nonsense(self) -> str | None:
        """What no sound model answers: ``one token over and over``, ``no text``; else None."""
        if self.token_ids is not None and len(self.token_ids) >= REPEATS:
            repeated = len(set(self.token_ids)) == 1
        else:
            repeated = self.token_ids is None and _repeats(self.text) >= REPEATS
        if repeated:
            return "one token over and over"
        return None if self.text.strip() else "no text"


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers that one launch gave to a traffic's first prompts, in their order.

    ``random_weights``: of a model without real weights, which answers noise. ``error``: why
    some or all of them could not be had.
    """

    answers: tuple[Answer, ...] = ()
    random_weights: bool = False
    error: str | None = None

    @property
    def digests(self) -> tuple[str, ...]:
        """One an answer."""
        return tuple(answer.digest for answer in self.answers)

    @property
    def nonsense(self) -> str | None:
        """Why these cannot be a sound model's answers, or None.

        So it is where at least two answers, and more than half of all, are one token over and
        over or no text at all. Random weights are not judged.
        """
        if self.random_weights:
            return None
        bad = [answer for answer in self.answers if answer.nonsense]
        if len(bad) < SEVERAL or 2 * len(bad) <= len(self.answers):
            return None
        kinds = " or ".join(sorted({str(answer.nonsense) for answer in bad}))
        shown = f", such as {bad[0].excerpt!r}" if bad[0].excerpt else ""
        return (
            f"{len(bad)} of {len(self.answers)} answers are {kinds}{shown}: the engine is broken, "
            "however fast. Where weights are random on purpose, say so with --load-format dummy"
        )


def _repeats(text: str) -> int:
    """Return how often a text's smallest unit follows itself: 3 for ``the the the``."""
    whole = text.strip()
    # "the the the" lacks the last of its gaps.
    return max((_periods(unit) for unit in (whole, f"{whole} ") if whole), default=0)


def _periods(text: str) -> int:
    return len(text) // (text + text).index(text, 1)
