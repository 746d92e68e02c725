"""What a server answered to a traffic's first prompts.

Enough to tell sense from nonsense, and one version's answers from another's.

Fast nonsense is worth nothing, so a measurement whose answers are nonsense is INVALID; answers
that merely differ are said, and judged by nobody: kernels of two versions turn near ties.

What is nonsense, and why:

- One token over and over, with a text: what a broken engine says whose logits are NaN ("!!!!",
  token 0). More than half of the answers must be so, and at least two: now and then a sound
  model falls into it too, on random token ids.
- No text: one token over and over whose text is empty, since it is a special one, or an empty
  text where no token ids are given. A sound model that would end at once and is made to go on
  (``ignore_eos``) answers its end token again and again, so this tells nothing of one prompt.
  It would not do so on every prompt: where no answer at all is sound, these count as well.
- Where token ids are given, they alone say what repeats. Differing ids without a text are an
  answer: the text may be hidden (a reasoning parser, special tokens).
- An answer that ended by itself is none, however short: the traffic let it end
  (``ignore_eos=False``), and how short it was is in the figures.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

CountedBy = Literal["token ids", "text"]
Nonsense = Literal["one token over and over", "no text"]

ANSWERS = "answers"
"""In a night's provenance: a line a prompt, the digests of what its launches answered.

Digests alone: a baseline lies in git, where the answers to private prompts have no place."""
RANDOM = "answers_of_random_weights"
"""In a night's provenance, where it is so of its ``answers``: True."""

EXCERPT = 40
"""Characters of an answer that a message quotes."""
REPEATS = 8
"""From this many tokens on an answer that is one token over and over is called so.

Of SmolLM2-135M's greedy answers, 16 forced tokens each, none of 160 to real questions was (on
either endpoint), and 3 of 160 to random token ids."""
ENDED = ("stop", "tool_calls", "function_call")
"""``finish_reason`` of an answer that ended by itself; ``length`` is that of one cut off."""
SEVERAL = 2
"""One answer alone is never enough: on random token ids a sound model's may be nonsense."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One greedy answer: its token ids where the server gave them, and its text.

    ``finish_reason`` is the server's word for why it ended; None where it said none.
    """

    text: str
    token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None

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
    def nonsense(self) -> Nonsense | None:
        """What is wrong with this answer, or None: by the rule at the top of this module."""
        if self.finish_reason in ENDED:
            return None
        if self.token_ids is None:
            if not self.text.strip():
                return "no text"
            repeated = _repeats(self.text) >= REPEATS
        else:
            if not self.token_ids and not self.text:
                return "no text"  # asked for 16 tokens, none came
            repeated = len(self.token_ids) >= REPEATS and len(set(self.token_ids)) == 1
        if not repeated:
            return None
        return "one token over and over" if self.text else "no text"


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
        over, and where all of at least two are that or have no text: see the top of this
        module. Random weights are not judged.
        """
        if self.random_weights:
            return None
        bad = [answer for answer in self.answers if answer.nonsense]
        if len(bad) < len(self.answers):
            bad = [answer for answer in bad if answer.nonsense != "no text"]
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
