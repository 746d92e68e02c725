"""Whether a server is told to decode speculatively: some figures exist only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FLAGS = ("--speculative-config", "-sc", "--spec-method", "--spec-model", "--spec-tokens")
"""vLLM's, the first also as ``--speculative-config.method ngram``."""


def speculating(arguments: Sequence[str]) -> bool:
    """Return whether these words of a vLLM command line turn speculative decoding on."""
    names = (word.partition("=")[0].partition(".")[0].replace("_", "-") for word in arguments)
    return any(name in FLAGS for name in names)
