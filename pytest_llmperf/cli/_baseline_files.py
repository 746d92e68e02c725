"""Which baseline files a command line means, and what git has of them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmperf.cli._folders import nearest
from pytest_llmperf.cli._text import listed
from pytest_llmperf.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_llmperf.model.baseline import Baseline

FOLDER = Path("baselines")
DEPTH = 3
"""machine/server/traffic.json"""


@dataclass(frozen=True)
class Held:
    """A baseline with what to call it: its file, or a file at a revision."""

    label: str
    baseline: Baseline


def folder_of(given: Path | None) -> Path:
    """Return the folder of the baselines: the one given, or the nearest upwards from here."""
    if given is None:
        here, found = Path.cwd(), nearest(FOLDER) or FOLDER
        return found.relative_to(here) if found.is_relative_to(here) else found
    if not given.is_dir():
        raise UsageError(f"--baselines {given}: there is no such folder")
    return given


def name_of(file: Path) -> str:
    """Return ``machine/server/traffic``, as a selector names a file."""
    return "/".join([*file.parts[-DEPTH:-1], file.stem])


def select(root: Path, selectors: Sequence[str]) -> list[Path]:
    """Return the files that each selector means, in that order; all of them without any.

    A selector is a file, or ``machine/server/traffic`` from the left, each a name or a pattern:
    ``*/qwen3-14b`` is every traffic of that server. Raise UsageError for one that means nothing.
    """
    files = sorted(root.glob("*/*/*.json"))
    found = [] if selectors else files
    for selector in selectors:
        found += [file for file in matching(files, selector, root) if file not in found]
    return found


def matching(files: Sequence[Path], selector: str, root: Path) -> list[Path]:
    """Return the files that one selector means; raise UsageError where there is none."""
    if Path(selector).is_file():
        return [Path(selector)]
    wanted = selector.strip("/").split("/")
    found = [
        file
        for file in files
        if len(wanted) <= DEPTH
        and all(map(fnmatchcase, name_of(file).split("/")[: len(wanted)], wanted))
    ]
    if not found:
        known = listed([name_of(file) for file in files], most=10)
        raise UsageError(
            f"{selector!r} is no file and no MACHINE/SERVER/TRAFFIC under {root}. "
            + (f"There are: {known}" if known else "Nothing is stored there")
        )
    return found


def only(root: Path, selector: str) -> Path:
    """Return the one file that a selector means; raise UsageError where it is several."""
    found = select(root, [selector])
    if len(found) > 1:
        names = listed([name_of(file) for file in found])
        raise UsageError(f"{selector!r} means {len(found)} files: {names}. Give more of the name")
    return found[0]


def commit_of(folder: Path, revision: str) -> str:
    """Return the commit that a revision names in the folder's repository, or raise UsageError."""
    done = _git(folder, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    if done.returncode:
        raise UsageError(f"--git {revision}: {done.stderr.strip() or 'there is no such revision'}")
    return done.stdout.strip()


def text_at(file: Path, commit: str) -> str | None:
    """Return a file's text at a commit; None where it was not there."""
    done = _git(file.parent, "show", f"{commit}:./{file.name}")
    return None if done.returncode else done.stdout


def files_at(root: Path, commit: str) -> list[Path]:
    """Return the baseline files under ``root`` that a commit has."""
    done = _git(root, "ls-tree", "-r", "-z", "--name-only", commit, "--", ".")
    paths = [Path(name) for name in done.stdout.split("\0") if name]
    return [root / path for path in paths if path.suffix == ".json" and len(path.parts) == DEPTH]


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    there = next(f for f in (folder, *folder.absolute().parents) if f.is_dir())
    try:
        return subprocess.run(
            ["git", "-C", str(there), *words],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise UsageError(f"git cannot be run: {error.strerror or error}") from None
