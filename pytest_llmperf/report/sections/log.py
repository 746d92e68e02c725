"""The end of each server's log, where a crash says why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmperf.report.section import Section
from pytest_llmperf.store.runs import Launch, masked_text

if TYPE_CHECKING:
    from pathlib import Path

    from markupsafe import Markup

    from pytest_llmperf.report.context import Context

LINES = 60
READ_BYTES = 64 * 1024
LONGEST = 400
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class Tail:
    """The last lines of one launch's log. ``troubled``: worth a look at once."""

    launch: Launch
    link: str
    lines: tuple[str, ...]
    troubled: bool


def render(context: Context) -> Markup | None:
    """Return the tail of every log; open where the server never got ready."""
    tails = [
        Tail(launch, context.link(launch.log), tail(launch.log), launch.facts is None)
        for launch in context.run.launches
        if launch.log is not None
    ]
    tails.sort(key=lambda of: not of.troubled)
    return context.render("log.html", tails=tails) if tails else None


def tail(log: Path, lines: int = LINES) -> tuple[str, ...]:
    """Return the last lines of a log without colours and secrets, long ones cut."""
    with log.open("rb") as file:
        end = file.seek(0, 2)
        start = max(end - READ_BYTES, 0)
        file.seek(start)
        read = file.read().decode("utf-8", "replace").splitlines()
    whole = read[1:] if start and len(read) > 1 else read
    return tuple(_line(text) for text in whole[-lines:])


def _line(text: str) -> str:
    plain = masked_text(_ANSI.sub("", text))
    return f"{plain[:LONGEST]}…" if len(plain) > LONGEST else plain


SECTION = Section("Server logs", 90, render)
