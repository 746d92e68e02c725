"""How words of the command line become values: argparse types, each with its complaint."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from pytest_llmperf.engines.sim.faults import Fault, parse_fault

if TYPE_CHECKING:
    from collections.abc import Sequence

MULTIPLES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30, "": 1}
HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kmgKMG]?)")
LARGEST_PORT = 65_535


def human(text: str) -> int:
    """Read ``8192``, ``8k`` (thousands) or ``8K`` (1,024s)."""
    match = HUMAN.fullmatch(text)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a number above 0, 8k or 8K)")
    return int(float(match[1]) * MULTIPLES[match[2]])


def length(text: str) -> int | None:
    """Read a length; ``auto`` and -1: as long as the model and the memory allow."""
    return None if text in {"auto", "-1"} else human(text)


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a whole number of at least 1)")
    return int(text)


def port(text: str) -> int:
    """Read a port, 0 for a free one."""
    if not text.isdecimal() or int(text) > LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a port, 0 to 65535)")
    return int(text)


def number(text: str) -> float:
    """Read any number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a number)") from None


def amount(text: str) -> float:
    """Read a number of at least 0."""
    found = number(text)
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a number of at least 0)")
    return found


def positive(text: str) -> float:
    """Read a number above 0."""
    found = number(text)
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a number above 0)")
    return found


def share(text: str) -> float:
    """Read a number above 0 and at most 1."""
    found = number(text)
    if not 0 < found <= 1:
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (above 0 and at most 1)")
    return found


def chance(text: str) -> float:
    """Read a number from 0 to 1."""
    found = number(text)
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (0 to 1)")
    return found


def fault(text: str) -> Fault:
    """Read a fault on demand."""
    try:
        return parse_fault(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def dashed(word: str) -> str:
    """``--max_model_len=8k`` → ``--max-model-len=8k``, as vLLM's parser does."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def others_of(words: Sequence[str]) -> dict[str, object]:
    """Group the words that no argument of ours took into names and values.

    Raise ValueError for a word that belongs to no name.
    """
    groups: dict[str, list[str]] = {}
    name: str | None = None
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-\d.*", word):
            name, equals, value = word.lstrip("-").replace("-", "_").partition("=")
            groups[name] = [value] if equals else []
        elif name is None:
            raise ValueError(f"unrecognized arguments: {word}")
        else:
            groups[name].append(word)
    return {key: _shown(values) for key, values in groups.items()}


def _shown(values: list[str]) -> object:
    if not values:
        return True
    if len(values) > 1:
        return values
    return int(values[0]) if re.fullmatch(r"-?\d+", values[0]) else values[0]
