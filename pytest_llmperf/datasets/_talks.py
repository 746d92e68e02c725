"""Whole conversations out of a file of them, in the forms that ``_conversations`` reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_llmperf.datasets._conversation_files import Whole, read_whole
from pytest_llmperf.datasets._conversations import ANSWERERS, USERS, role_of, text_of, turns_of
from pytest_llmperf.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Talk:
    """What a user said and what was answered, in turns; ``system`` came before them."""

    exchanges: tuple[tuple[str, str], ...]
    system: str | None = None


@dataclass(frozen=True, slots=True)
class Talks:
    """What a file holds: its conversations with a turn that was answered, in its order.

    ``passed``: how many records are not text alone.
    """

    talks: list[Talk]
    passed: int
    file: Whole


def read_talks(dataset: str, path: Path, most: int) -> Talks:
    """Read a file as a stream, at most ``most`` turns of a conversation.

    Raise DatasetError for a file of no use.
    """
    talks: list[Talk] = []
    passed = 0

    def take(record: Any) -> None:
        nonlocal passed
        if isinstance(record, dict) and (record.get("image") or record.get("video")):
            passed += 1
        elif (talk := talk_of(record, most)) is not None:
            talks.append(talk)

    file = read_whole(dataset, path, take)
    if not talks:
        raise DatasetError(
            f"{dataset}: none of the {file.records:,} records of {path} has a turn of a user with "
            "the answer to it"
        )
    return Talks(talks, passed, file)


def talk_of(record: Any, most: int) -> Talk | None:
    """Return the conversation of a record; None where no turn of a user is answered.

    It begins with the first turn of a user, what an answerer said before it is left out, and
    ends before the first turn that is not the other one's, or is not text, or empty.
    """
    _, turns = turns_of(record)
    spoken = [(role_of(turn), text_of(turn)) for turn in turns]
    system = spoken[0][1] if spoken and spoken[0][0] == "system" else None
    first = next((place for place, (role, _) in enumerate(spoken) if role in USERS), len(spoken))
    exchanges: list[tuple[str, str]] = []
    for place in range(first, len(spoken) - 1, 2):
        (asker, prompt), (answerer, answer) = spoken[place : place + 2]
        alternate = asker in USERS and answerer in ANSWERERS
        if len(exchanges) == most or not (alternate and _is_said(prompt) and _is_said(answer)):
            break
        exchanges.append((prompt, answer))
    return Talk(tuple(exchanges), system if _is_said(system) else None) if exchanges else None


def _is_said(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())
