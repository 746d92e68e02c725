"""The `pytest-llmperf` command: one module a call, each with a ``register(subparsers)``."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import select
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version

from pytest_llmperf.errors import LlmPerfError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 done, 1 the answer is no, 2 cannot be done."""
    parser = argparse.ArgumentParser(
        prog="pytest-llmperf",
        description="Beside the pytest plugin: start a suite, look at traffic, hardware, runs and "
        "baselines, measure once, serve the simulated engine.",
    )
    parser.add_argument("--version", action="version", version=version("pytest-llmperf"))
    calls = parser.add_subparsers(dest="call", metavar="CALL", required=True)
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):  # _helpers and __main__
            importlib.import_module(f"{__name__}.{module.name}").register(calls)
    options = parser.parse_args(argv)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        # Python flushes once more at its exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except LlmPerfError as error:
        print(f"pytest-llmperf {options.call}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return status


def _reader_is_gone() -> bool:
    """Whether who read the output has seen enough, as in ``pytest-llmperf runs | head``."""
    poll = select.poll()
    poll.register(sys.stdout, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
