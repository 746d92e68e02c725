"""Secrets stay out of what is stored: API keys, tokens, passwords.

A value is a secret by the name it bears (``HF_TOKEN``, ``Authorization``), by the option
before it (``--api-key``), or by its own shape (``Bearer …``, ``scheme://user:password@host``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"

_LAST = "key|apikey|token|passphrase|cookie|auth|pwd|pat"
_ANYWHERE = "password|passwd|secret|credentials?|authorization"
_NAME = re.compile(rf"(?:^|[^a-z])(?:{_LAST})$|{_ANYWHERE}")
"""``num_tokens`` and ``stop_token_ids`` are no secrets, ``HF_TOKEN`` and ``x-api-key`` are."""
_HARMLESS = re.compile(r"(?:^|[^a-z])(?:eos|bos|pad|mask|stop)[^a-z]?token$")
_VARIABLE = re.compile(r"(?:^|_)(?:API_?KEYS?|KEY|TOKEN)(?:_|\d|$)")
"""Of an environment variable, whose name is in capitals, wherever in it: ``GITHUB_TOKEN_RO``."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_OPTION = r"--?[A-Za-z][\w-]*?(?:key|token|password|passwd|secret|auth)"
_TEXT = (
    re.compile(rf"((?<![\w-]){_OPTION}=)(?:\"[^\"]*\"|'[^']*'|\S+)", re.IGNORECASE),
    # After a space a secret and a sentence look alike; no word of a sentence has a digit in it.
    re.compile(rf"((?<![\w-]){_OPTION}\s+)(?!-)(?=\S*[\d_]|\S{{12}})\S+", re.IGNORECASE),
    re.compile(r"((?:bearer|basic)\s+)[\w.~+/=-]{6,}", re.IGNORECASE),
    re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]*:)[^\s/@]+(?=@)", re.IGNORECASE),
    re.compile(
        r"((?:api[_-]?key|_token|password|passwd|secret)['\"]?\s*[:=]\s*)"
        r"(?:\[[^\]]*\]|\"[^\"]*\"|'[^']*'|[^\s,;})\]]+)",
        re.IGNORECASE,
    ),
    re.compile(r"()\b(?:sk-|hf_|ghp_|glpat-|xox[bp]-)[\w-]{12,}"),
)


def is_secret(name: str) -> bool:
    """Whether a value under this name is not to be stored or shown."""
    if name.isupper() and _VARIABLE.search(name):
        return True
    plain = _CAMEL.sub("_", name).lower()
    return bool(_NAME.search(plain)) and not _HARMLESS.search(plain)


def masked_text(text: str) -> str:
    """Return ``text`` with what looks like a secret in it replaced by ``***``."""
    for pattern in _TEXT:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return text


def masked_arguments(words: Iterable[str]) -> tuple[str, ...]:
    """Return a command line's words with the values of secret options masked."""
    result: list[str] = []
    hide = False
    for word in words:
        if hide and not word.startswith("-"):
            result.append(MASK)
            continue  # --api-key takes several keys
        name, equals, _value = word.partition("=")
        secret = name.startswith("-") and is_secret(name)
        hide = secret and not equals
        result.append(f"{name}={MASK}" if secret and equals else masked_text(word))
    return tuple(result)


def masked_pairs(pairs: Iterable[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    """Return pairs of a name and a value with the values of secret names masked."""
    return tuple((name, _masked(name, value)) for name, value in pairs)


def masked_mapping(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping, nested ones too, with the values of secret names masked."""
    return dict(masked_pairs(mapping.items()))


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return masked_mapping(value)
    if isinstance(value, str):
        return MASK if value and is_secret(name) else masked_text(value)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        hidden = is_secret(name)
        return tuple(MASK for _ in value) if hidden else masked_arguments(value)
    if isinstance(value, list | tuple):
        return [_masked(name, item) for item in value]
    return value
