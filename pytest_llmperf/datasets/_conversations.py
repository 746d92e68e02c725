"""Files of conversations in the forms that ShareGPT's are found in, read as a stream.

A JSON list of records, or JSON lines of one each. A record's turns lie under
``conversations``, ``conversation``, ``items`` or ``messages``; a turn's role under ``from`` or
``role``, its text under ``value``, ``content`` or ``text``. Both kinds of file may be cut off
in their last record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import ijson

from pytest_llmperf.datasets._files import (
    BYTE_ORDER_MARK,
    BadLineError,
    json_object,
    numbered,
    opened,
)
from pytest_llmperf.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator
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
    of one that is not text alone, since it has a place in the shuffle. ``whole``: the
    conversations that could be read. ``complaint``: why reading ended early.
    """

    exchanges: list[Exchange | None]
    whole: int
    complaint: str | None


class CutOffError(DatasetError):
    """The file ends in the middle of a record."""


def read_conversations(dataset: str, path: Path, *, by_role: bool) -> Conversations:
    """Read a file, holding no more than one exchange a conversation.

    ``by_role``: see :func:`exchange_of`. Raise DatasetError for a file of no use.
    """
    exchanges: list[Exchange | None] = []
    whole = 0
    complaint = None
    with opened(dataset, path) as file:
        try:
            for record in records(dataset, path, file):
                whole += 1
                exchanges.extend(exchange_of(record, by_role=by_role))
        except CutOffError as error:
            complaint = str(error)
        empty = file.tell() == 0
    if empty:
        raise DatasetError(f"{dataset}: {path} is empty")
    if not whole:
        why = f" ({complaint})" if complaint else ""
        raise DatasetError(
            f"{dataset}: {path} is not a JSON list of conversations{why}, nor has it one a line"
        )
    if not exchanges:
        raise DatasetError(f"{dataset}: none of the {whole:,} records of {path} has two turns")
    return Conversations(exchanges, whole, complaint)


def records(dataset: str, path: Path, file: BinaryIO) -> Iterator[Any]:
    """Return the records of a list, or of the lines; raise CutOffError where it breaks off."""
    if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
        file.seek(0)
    start = file.tell()
    while (first := file.read(1)).isspace():
        pass
    file.seek(start)
    if first != b"{":
        try:
            yield from ijson.items(file, "item", use_float=True)
        except ijson.JSONError as error:
            raise CutOffError(str(error).partition("\n")[0].strip()) from None
        return
    for number, line in numbered(file):
        try:
            yield json_object(line)
        except BadLineError as error:
            if next(numbered(file), None) is None:
                raise CutOffError(f"line {number} {error}") from None
            raise DatasetError(f"{dataset}: {path}, line {number} {error}") from None


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
