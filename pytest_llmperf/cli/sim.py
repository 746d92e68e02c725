"""``pytest-llmperf sim MODEL [arguments]``: serve the simulated engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the call. All words after it go to the engine, which has a parser of its own."""
    parser = subparsers.add_parser(
        "sim",
        help="serve the simulated engine (never a real measurement)",
        add_help=False,
        prefix_chars="\0",  # no word is an option here, --help included
    )
    parser.add_argument("arguments", nargs="*")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until told to stop; return the exit status."""
    from pytest_llmperf.engines.sim.server import main

    return main(options.arguments)
