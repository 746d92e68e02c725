"""The pytest plugin: hooks that delegate. Nothing heavy is imported until a test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmperf.plugin import options
from pytest_llmperf.plugin.fixtures import (
    llm_campaign,
    llm_case,
    llm_comparison,
    llm_server,
    llm_verdict,
)

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["llm_campaign", "llm_case", "llm_comparison", "llm_server", "llm_verdict"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add every option, as a flag and as an ini value."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; refuse options that cannot be."""
    options.register_markers(config)
    options.check(config)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Plan in one process; with --llmperf-stop-servers end kept servers, and that is all."""
    options.plan_in_one_process(config)
    if options.value(config, "stop-servers"):
        from pytest_llmperf.plugin.keeping import stop_servers

        return stop_servers(config)
    return None


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say where relative paths start from, if that is not the rootdir shown."""
    home = options.home(config)
    if home == config.rootpath or not options.any_path(config):
        return None
    return (
        f"llmperf: pytest took rootdir {config.rootpath} from an option's value; folders of "
        f"llmperf are under {home}. Write --llmperf-vllm=PATH, with '=', so that it cannot"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test a (server, traffic) of the ``llmperf`` marker."""
    if "llm_case" in metafunc.fixturenames:
        from pytest_llmperf.plugin.cases import parametrize

        parametrize(metafunc)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """Keep the tests of one campaign in one xdist worker."""
    if not options.any_case(items):
        return (yield)
    from pytest_llmperf.plugin import grouping

    grouping.arrange(config, items)
    result = yield
    grouping.hold(config, items)
    return result


def pytest_collection_finish(session: pytest.Session) -> None:
    """Learn which campaigns the selected tests want, and how many figures they judge."""
    if options.any_case(session.items):
        from pytest_llmperf.plugin.session import session_of

        session_of(session.config).collect(session.items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Tell the plan before anything is measured; with --llmperf-plan end there."""
    if options.any_case(session.items) or options.value(session.config, "plan"):
        from pytest_llmperf.plugin.session import session_of

        return session_of(session.config).tell_plan(session)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """After the test's body, let the verdict that it asked for end the test."""
    try:
        yield
    except BaseException:
        options.keep_check(item)
        raise
    options.conclude_check(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether a test's body passed, so that an unchecked verdict can be told."""
    report = yield
    if report.when == "call":
        item.stash[options.BODY_PASSED] = report.passed
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Stop servers, write the report, refuse a GPU session that judged nothing."""
    if options.SESSION in session.config.stash or options.run_path(session.config):
        from pytest_llmperf.plugin.session import session_of

        session_of(session.config).finish(session, exitstatus)
    else:
        options.refuse_empty(session)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show every verdict, and where the report is."""
    if found := config.stash.get(options.SESSION, None):
        found.summarise(terminalreporter)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give an xdist worker the id of the run that it takes part in, and how tests are dealt."""
    node.workerinput["llmperf_run"] = options.run_id(node.config)
    node.workerinput["llmperf_dist"] = node.config.getoption("dist")
