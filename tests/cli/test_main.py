from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from pytest_llmperf import cli

ROOT = Path(__file__).parents[2]
CALLS = {path.stem for path in Path(cli.__file__).parent.glob("[a-z]*.py")}


def test_the_page_has_every_call():
    """docs/command.md: a section a call, with an example of it."""
    text = (ROOT / "docs" / "command.md").read_text()
    sections = dict(
        re.findall(r"^## `pytest-llmperf ([a-z]+)`\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    )
    assert set(sections) == CALLS
    for name, section in sections.items():
        assert f"$ pytest-llmperf {name}" in section, name


def test_the_page_names_only_flags_that_exist(call):
    """In the table of each call."""
    text = (ROOT / "docs" / "command.md").read_text()
    for name, section in re.findall(
        r"^## `pytest-llmperf ([a-z]+)`\n(.*?)(?=^## |\Z)", text, re.M | re.S
    ):
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `--")]
        flags = set(re.findall(r"`(--[a-z-]+[a-z])(?=[` ])", " ".join(rows)))
        known = call(name, "--help")[1] if flags else ""
        assert flags <= set(re.findall(r"--[a-z-]+", known)), name


def test_alone_it_lists_the_calls(call):
    """And fails: nothing was asked for."""
    status, _, err = call()
    assert (status, "CALL" in err) == (2, True)
    listed = call("--help")[1]
    assert all(re.search(rf"^    {name}\b", listed, re.M) for name in CALLS)


def test_who_has_seen_enough_gets_no_traceback():
    """`… | head -1`: the reader goes while there is more to say than a pipe holds."""
    words = ("inspect", "--random-range-ratio", "0.9", "--bins", "5000")
    with subprocess.Popen(
        [sys.executable, "-m", "pytest_llmperf.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline().split() == [b"dataset", b"random"]
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141
