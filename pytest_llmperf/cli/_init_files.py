"""What ``pytest-llmperf init`` writes, and writing it so that a failure leaves nothing half."""

from __future__ import annotations

import configparser
import re
import secrets
import tomllib
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmperf.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TEMPLATES = Path(__file__).parent / "_starter"
SUITE = Path("suites", "test_serving.py")
CI_FILES = {
    "github": {Path(".github", "workflows", "llm-performance.yml"): "github.yml"},
    "gitlab": {
        Path(".gitlab", "llm-performance.yml"): "gitlab.yml",
        Path(".gitlab-ci.yml"): "gitlab-include.yml",
    },
    "none": {},
}
"""CI system → file → its template."""

PYTEST_INI = Path("pytest.ini")
PYTEST_FILES = ("pytest.toml", ".pytest.toml", ".pytest.ini")
"""Files that are pytest's settings whatever they hold."""

GITIGNORE = Path(".gitignore")
IGNORED = ".llmperf/"
MODEL = re.compile(r"[\w./:@+~-]+")


def starter(model: str, ci: str) -> dict[Path, str]:
    """Return every file of a starter with its text, by its path in the repository.

    Raise UsageError for a model that is no name and no path.
    """
    if not MODEL.fullmatch(model):
        raise UsageError(
            f"--model {model!r}: give a name such as Qwen/Qwen3-14B, or a folder; letters, "
            "digits and . / : @ + ~ _ - can be in it"
        )
    templates = {SUITE: "test_serving.py", PYTEST_INI: "pytest.ini", **CI_FILES[ci]}
    words = {"@MODEL@": model, "@NAME@": server_name(model)}
    return {path: _filled(template, words) for path, template in templates.items()}


def server_name(model: str) -> str:
    """Return a server's name for a model: ``qwen3-14b`` for ``Qwen/Qwen3-14B``."""
    last = model.rstrip("/").rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9._-]+", "-", last).strip("-._") or "server"


def _filled(template: str, words: Mapping[str, str]) -> str:
    text = (TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def settings_of(root: Path) -> str | None:
    """Return the file, other than pytest.ini, that holds pytest's settings; None without one.

    A pytest.ini beside it would take its place, and what it says would count no more.
    """
    for name in PYTEST_FILES:
        if (root / name).is_file():
            return name
    if "pytest" in _toml(root / "pyproject.toml").get("tool", {}):
        return "pyproject.toml"
    for name, section in (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        parser = configparser.RawConfigParser()
        with suppress(configparser.Error, UnicodeDecodeError):
            parser.read(root / name, encoding="utf-8")
        if parser.has_section(section):
            return name
    return None


def _toml(path: Path) -> dict[str, dict[str, object]]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"{path.name} cannot be read: {error}. Mend it first") from error


def ignoring(root: Path) -> str | None:
    """Return what .gitignore is to hold, or None where it keeps ``.llmperf/`` out already."""
    file = root / GITIGNORE
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if {line.strip().strip("/") for line in text.splitlines()} & {IGNORED.strip("/")}:
        return None
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{IGNORED}\n"


def top_of(folder: Path) -> Path | None:
    """Return the top of the git repository around ``folder``; None outside of one."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def write_all(files: Mapping[Path, str]) -> None:
    """Write all files, or leave everything as it was.

    Each is written beside its place first; only when all are on the disk do they take their
    places. Raise UsageError where that cannot be done.
    """
    with ExitStack() as undo:
        staged = []
        try:
            for path, text in files.items():
                staged.append((_staged(path, text, undo), path))
            for temporary, path in staged:
                before = path.read_bytes() if path.exists() else None
                temporary.replace(path)
                undo.callback(_restore, path, before)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written: {error.strerror or error}. Nothing was changed"
            ) from error
        undo.pop_all()


def _staged(path: Path, text: str, undo: ExitStack) -> Path:
    for folder in reversed([folder for folder in path.parents if not folder.exists()]):
        folder.mkdir()
        undo.callback(_removed, folder.rmdir)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    undo.callback(_removed, temporary.unlink)
    temporary.write_text(text, encoding="utf-8")
    return temporary


def _removed(remove: Callable[[], None]) -> None:
    with suppress(OSError):  # it never came, or something else has come into a folder
        remove()


def _restore(path: Path, before: bytes | None) -> None:
    with suppress(OSError):
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)
