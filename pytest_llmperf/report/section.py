"""What a section of the page is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from markupsafe import Markup

    from pytest_llmperf.report.context import Context


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page under a heading of its own.

    ``order`` places it (the sections here use 10, 20, …; equal ones go by name). ``render``
    returns the part below the heading, or None where the run has nothing to show in it.
    """

    title: str
    order: int
    render: Callable[[Context], Markup | None]
