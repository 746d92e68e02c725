"""What the options say, and what of it can be checked without work."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmperf.plugin.flags import OPTIONS, read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_llmperf.plugin.checks import Check
    from pytest_llmperf.plugin.session import Session

SESSION: pytest.StashKey[Session] = pytest.StashKey()
BODY_PASSED: pytest.StashKey[bool] = pytest.StashKey()
CHECK: pytest.StashKey[Check] = pytest.StashKey()
RUN_ID: pytest.StashKey[str] = pytest.StashKey()

NOTHING_JUDGED = 1
"""Exit status of a GPU session that judged nothing: not pytest's 5, which CI tools forgive."""

__all__ = ["OPTIONS"]


def add(parser: pytest.Parser) -> None:
    """Add each option to the command line and to the ini file."""
    group = parser.getgroup("llmperf", "LLM serving performance (pytest-llmperf)")
    for option in OPTIONS:
        if option.kind == "flag":
            group.addoption(option.flag, action="store_true", default=None, help=option.help)
            parser.addini(option.ini, option.help, type="bool", default=False)
        elif option.kind == "pairs":
            group.addoption(option.flag, action="append", metavar=option.metavar, help=option.help)
            parser.addini(option.ini, option.help, type="linelist", default=[])
        else:
            group.addoption(option.flag, metavar=option.metavar, help=option.help)
            parser.addini(option.ini, option.help, default=None)


def value(config: pytest.Config, name: str) -> Any:
    """Return an option's value: the flag's, else the ini file's, else the default.

    Raise pytest.UsageError for one that cannot be read, naming it and what it takes.
    """
    option = next(option for option in OPTIONS if option.name == name)
    given = config.getoption(option.flag)
    if given is None:
        given = config.getini(option.ini)
    if given is None or given in ("", []):
        given = option.default
    try:
        return read(option, given, home(config))
    except ValueError as error:
        raise pytest.UsageError(f"{option.flag} (ini {option.ini}): {error}") from None


def home(config: pytest.Config) -> Path:
    """Return the folder that relative paths start from: pytest's rootdir, where it is one.

    pytest looks for its rootdir before it knows our options, and takes the value of
    ``--llmperf-vllm /opt/vllm/bin/vllm`` for a test path: the rootdir is then ``/`` or
    somebody else's. Such a one is passed over for the folder that pytest was started in.
    """
    started_in = config.invocation_params.dir
    if config.getoption("rootdir", None):
        return config.rootpath
    tests = [started_in / str(arg).split("::")[0] for arg in config.args or ()]
    if config.inipath is not None and any(
        path.resolve().is_relative_to(config.rootpath) for path in (started_in, *tests)
    ):
        return config.rootpath
    return started_in


def check(config: pytest.Config) -> None:
    """Read every option once, so that a bad one is told before anything is collected."""
    if all(config.getoption(option.flag) in (None, []) for option in OPTIONS) and not any(
        config.getini(option.ini) for option in OPTIONS
    ):
        return
    for option in OPTIONS:
        value(config, option.name)
    server_arguments(config)
    _check_engine(value(config, "engine"), value(config, "base-url"))
    if value(config, "keep-servers"):
        _check_keeping(config)


def _check_keeping(config: pytest.Config) -> None:
    if os.environ.get("CI"):
        raise pytest.UsageError(
            "--llmperf-keep-servers is for writing tests, and CI is set: a kept server outlives "
            "the job, holds its GPUs and gives no launches. Leave the option away on CI runners"
        )
    if value(config, "accept"):
        raise pytest.UsageError(
            "--llmperf-accept and --llmperf-keep-servers exclude each other: a kept server's "
            "launches are no launches, and must not become a night of the baseline"
        )


def _check_engine(engine: str | None, base_url: str | None) -> None:
    if engine is None:
        return
    from pytest_llmperf.engines import ENGINES
    from pytest_llmperf.errors import UnknownNameError

    if engine not in ENGINES:
        raise pytest.UsageError(f"--llmperf-engine: {UnknownNameError('engine', engine, ENGINES)}")
    if engine == "attach" and not base_url:
        raise pytest.UsageError(
            "--llmperf-engine attach needs --llmperf-base-url URL, the server to measure"
        )


def server_arguments(config: pytest.Config) -> tuple[str, ...]:
    """Return ``--llmperf-server-args`` as words."""
    text = value(config, "server-args")
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise pytest.UsageError(f"--llmperf-server-args: {error} in {text!r}") from None


def register_markers(config: pytest.Config) -> None:
    """Document the markers."""
    config.addinivalue_line("markers", "gpu: needs as many GPUs as each server's arguments say")
    config.addinivalue_line(
        "markers",
        "llmperf(servers, traffic, against=None, gate=None): one test a (server, traffic); "
        "against: the server to compare with; gate: figures to judge against the baseline "
        "(names, or name → tolerance)",
    )


def conclude_check(item: pytest.Item) -> None:
    """End the test as the verdict says that it asked for, if it did."""
    if (check := item.stash.get(CHECK, None)) is not None:
        check.conclude()


def keep_check(item: pytest.Item) -> None:
    """Keep the verdict of a test that failed by itself."""
    if (check := item.stash.get(CHECK, None)) is not None:
        check.keep()


def any_path(config: pytest.Config) -> bool:
    """Whether an option of ours that may hold a path is written without ``=``."""
    flags = {option.flag for option in OPTIONS if option.kind in ("path", "pairs")}
    return bool({*flags, "--llmperf-vllm"} & set(map(str, config.invocation_params.args)))


def any_case(items: Iterable[pytest.Item]) -> bool:
    """Whether any test is one of ours; imports nothing."""
    return any("llm_case" in getattr(item, "fixturenames", ()) for item in items)


def wants_gpu(config: pytest.Config) -> bool:
    """Whether ``-m`` asks for GPU tests: ``gpu``, ``gpu and nightly``, not ``not gpu``."""
    expression = config.getoption("markexpr", "") or ""
    return bool(re.search(r"\bgpu\b", expression)) and not re.search(r"\bnot\s+gpu\b", expression)


def measures_nothing(config: pytest.Config) -> bool:
    """Whether this session is asked to collect or to plan, and to stop there."""
    return bool(config.option.collectonly or value(config, "plan"))


def plan_in_one_process(config: pytest.Config) -> None:
    """Leave ``-n`` away for a plan: it is made of collected tests, which only workers have.

    Called before or after xdist reads its own options.
    """
    if value(config, "plan") and hasattr(config.option, "numprocesses"):
        config.option.numprocesses, config.option.dist, config.option.tx = 0, "no", []


def refuse_empty(session: pytest.Session) -> None:
    """End a session that was asked for GPU tests and judged nothing with an error.

    An xdist worker is no session, and one that only collects or plans is not meant to judge.
    """
    config = session.config
    if not wants_gpu(config) or hasattr(config, "workerinput") or measures_nothing(config):
        return
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = NOTHING_JUDGED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(
                "llmperf: this session was asked for GPU tests (-m gpu) and judged nothing",
                red=True,
            )


def run_id(config: pytest.Config) -> str:
    """Return this run's id, the same in every xdist worker."""
    given = getattr(config, "workerinput", {}).get("llmperf_run")
    if given:
        return str(given)
    if RUN_ID not in config.stash:
        config.stash[RUN_ID] = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(2)
    return config.stash[RUN_ID]


def run_path(config: pytest.Config) -> Path | None:
    """Return this run's folder, if anything was measured: by any worker, under xdist."""
    if RUN_ID not in config.stash and not hasattr(config, "workerinput"):
        return None
    path: Path = value(config, "runs") / run_id(config)
    return path if path.exists() else None


def versions() -> dict[str, str]:
    """Return what ran this session."""
    from importlib.metadata import version

    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "pytest": pytest.__version__,
        "pytest-llmperf": version("pytest-llmperf"),
    }
