"""Reading a server's command line without running its parser.

vLLM takes ``--max-model-len 8192``, ``--max-model-len=8192`` and ``--max_model_len 8192``
alike, and the last one wins.
"""

from __future__ import annotations

from collections.abc import Sequence


def argument(arguments: Sequence[str], *names: str) -> str | None:
    """Return the value of the last occurrence of any of ``names``, or None.

    A flag without a value (``--enforce-eager``) reads as the empty string.

    >>> argument(["-tp", "2", "--tensor-parallel-size=4"], "--tensor-parallel-size", "-tp")
    '4'
    """
    wanted = {_plain(name) for name in names}
    found: str | None = None
    for position, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if not name.startswith("-") or _plain(name) not in wanted:
            continue
        if equals:
            found = value
        else:
            following = arguments[position + 1 : position + 2]
            found = following[0] if following and not _is_option(following[0]) else ""
    return found


def _plain(name: str) -> str:
    return name.lstrip("-").replace("_", "-")


def _is_option(word: str) -> bool:
    return word.startswith("-") and not word.lstrip("-").replace(".", "", 1).isdigit()
