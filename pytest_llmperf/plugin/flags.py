"""The options: each one's flag, ini value, default, and how what is given is read."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Option:
    """One option. ``kind``: how its value is written."""

    name: str
    help: str
    kind: Literal["text", "count", "seconds", "flag", "pairs", "path"] = "text"
    default: Any = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    most: int | None = None
    """The largest count, where there is one."""

    @property
    def flag(self) -> str:
        """The command-line flag."""
        return f"--llmperf-{self.name}"

    @property
    def ini(self) -> str:
        """The ini value's name."""
        return f"llmperf_{self.name.replace('-', '_')}"


OPTIONS = (
    Option("engine", "engine of every server: vllm, sim or attach (default: as the suite says, "
           "which is vllm for vllm(...))", metavar="ENGINE"),
    Option("vllm", "the vllm executable (default: the one on PATH)", metavar="PATH"),
    Option("base-url", "URL of the running server that engine attach measures", metavar="URL"),
    Option("model", "where a model lies on this runner (repeatable)", "pairs", (),
           metavar="NAME=PATH"),
    Option("server-args", "appended to every server's arguments", default="", metavar="ARGS"),
    Option("prompts", "cut every traffic to N prompts, for a rehearsal: its digest differs, so it "
           "meets no baseline of the whole traffic", "count", metavar="N"),
    Option("launches", "launches of each server (default 3)", "count", metavar="N", most=1000),
    Option("replays", "replays of each traffic a launch (default 3)", "count", metavar="N",
           most=1000),
    Option("plan", "print what the selected tests will cost (GPU minutes) and what changes they "
           "will be able to see, and stop; needs no GPU", "flag", default=False),
    Option("plan-machine", "whose baselines --llmperf-plan takes on a host without GPUs: a folder's "
           "name under --llmperf-baselines (default: the only one)", metavar="NAME"),
    Option("startup-timeout", "how long a server may take to be ready (default 600)", "seconds",
           600.0, metavar="S"),
    Option("stall-timeout", "how long a stream may stay silent (default 60)", "seconds", 60.0,
           metavar="S"),
    Option("stop-timeout", "how long a server may take to end on SIGTERM, and then (60 at least) to "
           "free its GPU memory (default 30)", "seconds", 30.0, metavar="S"),
    Option("accept", "add this run as a night of the baseline; never an invalid, violating or "
           "regressed result", "flag", default=False),
    Option("baselines", "folder of the baselines (default: baselines)", "path", "baselines",
           metavar="DIR"),
    Option("report", "folder of the report (default: .llmperf/report)", "path", ".llmperf/report",
           metavar="DIR"),
    Option("runs", "folder of the runs' artifacts (default: .llmperf/runs)", "path",
           ".llmperf/runs", metavar="DIR"),
    Option("lease-timeout", "how long to wait for GPUs that others have leased (default 600)",
           "seconds", 600.0, metavar="S"),
    Option("inconclusive", "what an inconclusive verdict does (default skip, and the third night "
           "in a row fails; fail for an expect() of a comparison)", choices=("skip", "fail", "pass")),
    Option("strict", "a missing baseline fails", "flag", default=False),
    Option("keep-servers", "leave servers running after the session, for the next one, while one "
           "writes tests; no results to accept, and never in CI", "flag", default=False),
    Option("keep-timeout", "how long a server that is kept from now on stays without a session using it "
           "(default 1800)",
           "seconds", 1800.0, metavar="S"),
    Option("stop-servers", "end the servers that --llmperf-keep-servers left running, and stop",
           "flag", default=False),
)  # fmt: skip


def read(option: Option, given: Any, root: Path) -> Any:
    """Return what was given as a value; raise ValueError, with the rule, for what cannot be."""
    if given is None:
        return None
    if option.choices and given not in option.choices:
        raise ValueError(f"{given!r} is none of {', '.join(option.choices)}")
    if option.kind == "count":
        if not re.fullmatch(r"[1-9]\d*", str(given)):
            raise ValueError(f"{given!r} is not a number of at least 1")
        if option.most is not None and int(given) > option.most:
            raise ValueError(f"{given!r} is more than {option.most:,}, the most that is possible")
        return int(given)
    if option.kind == "seconds":
        seconds = _number(given)
        if not seconds > 0:
            raise ValueError(f"{given!r} is not a number of seconds above 0")
        return seconds
    if option.kind == "path":
        return root / os.path.expanduser(given)  # noqa: PTH111 - one joins and expands
    if option.kind == "pairs":
        return dict(_pair(text) for text in given)
    return given


def _number(text: Any) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _pair(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise ValueError(f"{text!r} is not NAME=PATH")
    return name, os.path.expanduser(path)  # noqa: PTH111 - stays a string, as given
