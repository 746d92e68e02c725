"""Records of conversations in the forms that ShareGPT's are found in.

A record's turns lie under ``conversations``, ``conversation``, ``items`` or ``messages``; a
turn's role under ``from`` or ``role``, its text under ``value``, ``content`` or ``text``. How
files of them are read is in ``_conversation_files``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_llmperf.datasets._conversation_files import Whole, read_whole
from pytest_llmperf.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

TURNS = ("conversations", "conversation", "items", "messages")
ROLES = ("from", "role")
TEXTS = ("value", "content", "text")
USERS = frozenset({"human", "user", "prompter"})
ANSWERERS = frozenset({"gpt", "assistant", "chatgpt", "bing", "bard", "model"})


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prompt and the answer it got, after the text of a system turn if there is one."""

    prompt: str
    answer: str
    system: str | None = None


@dataclass(frozen=True, slots=True)
class Conversations:
    """What a file holds.

    ``exchanges``: one of every conversation that has one, in the file's order; None in place
    of one that is not text alone, since it has a place in the shuffle.
    """

    exchanges: list[Exchange | None]
    file: Whole


def read_conversations(dataset: str, path: Path, *, by_role: bool) -> Conversations:
    """Read a file, holding no more than one exchange a conversation.

    ``by_role``: see :func:`exchange_of`. Raise DatasetError for a file of no use.
    """
    exchanges: list[Exchange | None] = []
    file = read_whole(
        dataset, path, lambda record: exchanges.extend(exchange_of(record, by_role=by_role))
    )
    if not exchanges:
        raise DatasetError(
            f"{dataset}: none of the {file.records:,} records of {path} has two turns"
        )
    return Conversations(exchanges, file)


def exchange_of(record: Any, *, by_role: bool) -> tuple[Exchange | None, ...]:
    """Return a record's exchange, None where it is not text alone; nothing where it has none.

    Of records in vLLM's form (``conversations`` with ``value``) these are the first two turns,
    whoever speaks, as ``vllm bench serve`` takes them. With ``by_role``, and of all other
    records, it is the first turn of a user that is answered in the next one, and the text of a
    system turn before it.
    """
    key, turns = turns_of(record)
    if len(turns) < 2:  # noqa: PLR2004  # a prompt, an answer
        return ()
    if key == "conversations" and not by_role and all("value" in turn for turn in turns[:2]):
        prompt, answer = (turn["value"] for turn in turns[:2])
        return (_exchange(record, prompt, answer, None),)
    system = text_of(turns[0]) if role_of(turns[0]) == "system" else None
    for place, turn in enumerate(turns[:-1]):
        if role_of(turn) in USERS and role_of(turns[place + 1]) in ANSWERERS:
            return (_exchange(record, text_of(turn), text_of(turns[place + 1]), system),)
    return ()


def _exchange(record: Any, prompt: Any, answer: Any, system: Any) -> Exchange | None:
    if record.get("image") or record.get("video"):
        return None
    texts = isinstance(prompt, str) and isinstance(answer, str)
    return Exchange(prompt, answer, system) if texts and isinstance(system, str | None) else None


def turns_of(record: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return where a record's turns lie, and those of them that are objects."""
    fields = record if isinstance(record, dict) else {}
    for key in TURNS:
        turns = fields.get(key)
        if isinstance(turns, list):
            return key, [turn if isinstance(turn, dict) else {} for turn in turns]
    return "", []


def role_of(turn: dict[str, Any]) -> str:
    return str(_first(turn, ROLES)).lower()


def text_of(turn: dict[str, Any]) -> Any:
    return _first(turn, TEXTS)


def _first(turn: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((turn[key] for key in keys if key in turn), None)
