"""``pytest-llmperf init``: a starter suite and a CI workflow for this repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmperf.errors import UsageError

if TYPE_CHECKING:
    import argparse

MODEL = "Qwen/Qwen3-14B"
NEXT = """\
Next:
  pytest suites --llmperf-engine sim --llmperf-launches 1 --llmperf-replays 1 --llmperf-accept
      rehearse it here, on the simulated engine: no GPU is needed, and no real baseline is met
  pytest suites -m gpu --llmperf-plan
      what a night on a GPU takes, and which losses it would see
  pytest suites -m gpu --llmperf-accept
      on the GPU runner: the first accepted night. Commit baselines/"""
SETTINGS = """\
told   {file} holds pytest's settings, so no pytest.ini was written. Options of llmperf go there,
       such as llmperf_vllm = {value}"""


def register(calls: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the call."""
    parser = calls.add_parser(
        "init",
        help="write a starter suite and a CI workflow into this repository",
        description="Write suites/test_serving.py, pytest.ini, a CI workflow and a line of "
        ".gitignore into the current folder: all of them, or nothing. A file that is there "
        "already is left as it is.",
    )
    parser.add_argument("--model", default=MODEL, help=f"what to serve (default {MODEL})")
    parser.add_argument("--ci", choices=("github", "gitlab", "none"), default="github")
    parser.add_argument("--force", action="store_true", help="write files anew that are there")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write what is missing, say what was left, and what to do next."""
    from pytest_llmperf.cli._init_files import (
        GITIGNORE,
        IGNORED,
        PYTEST_INI,
        ignoring,
        settings_of,
        starter,
        write_all,
    )

    root = Path.cwd()
    _require_top(root, options.ci)
    files = starter(options.model, options.ci)
    settings = settings_of(root)
    if settings is not None:
        del files[PYTEST_INI]
    left = [] if options.force else [path for path in files if (root / path).exists()]
    written = {path: text for path, text in files.items() if path not in left}
    ignored = ignoring(root)
    added = {} if ignored is None else {GITIGNORE: ignored}
    write_all({root / path: text for path, text in (written | added).items()})

    for path in written:
        print(f"wrote  {path}")
    for path in added:
        print(f"added  {IGNORED} to {path}")
    for path in left:
        print(f"left   {path}: it is there already (--force writes it anew)")
    if settings is not None:
        value = '"/opt/vllm/bin/vllm"' if settings.endswith(".toml") else "/opt/vllm/bin/vllm"
        print(SETTINGS.format(file=settings, value=value))
    _tell_include(left)
    print(f"\n{NEXT}")
    return 0


def _require_top(root: Path, ci: str) -> None:
    from pytest_llmperf.cli._init_files import top_of

    top = top_of(root)
    if ci != "none" and top not in (None, root):
        raise UsageError(
            f"{root} is inside the repository {top}, and a workflow is only found at its top: "
            "run init there, or here with --ci none"
        )


def _tell_include(left: list[Path]) -> None:
    if Path(".gitlab-ci.yml") in left:
        print("told   add to .gitlab-ci.yml:  include: [{local: .gitlab/llm-performance.yml}]")
