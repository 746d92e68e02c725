"""Under xdist the tests of one campaign run in one worker: they share its launches.

``--dist loadgroup`` keeps a group together by a suffix of the test ids, ``…@group``, which
xdist's workers add. With pytest 9.2's structured ids xdist 3.8 writes it where nobody reads
(pytest-dev/pytest-xdist#1386), and tests are dealt as if there were no groups. So it is added
here where it is missing, and a session that would still deal them apart is refused.
"""

from __future__ import annotations

import pytest

from pytest_llmperf.campaign import CampaignSpec
from pytest_llmperf.errors import SpecError
from pytest_llmperf.plugin.cases import case_of

GROUP = "xdist_group"


def arrange(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put each test of ours into its campaign's group, before xdist looks for groups."""
    if not config.pluginmanager.has_plugin("xdist"):
        return
    for item in items:
        if (case := case_of(item)) is not None:
            item.add_marker(getattr(pytest.mark, GROUP)(CampaignSpec(case.servers, ()).label))


def hold(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the suffix of its group to each id of ours that xdist has not added it to."""
    if not _dealt_by_group(config):
        return
    for item in items:
        if case_of(item) is None or item.nodeid.endswith(suffix := _suffix(item)):
            continue
        structured = getattr(item, "id", None)
        if structured is not None:
            item._id = type(structured).parse(item.nodeid + suffix)  # noqa: SLF001 - as xdist means to


def require_group(config: pytest.Config, item: pytest.Item) -> None:
    """Raise SpecError where this test could run apart from the others of its campaign."""
    if _dealt_by_group(config) and not item.nodeid.endswith(_suffix(item)):
        raise SpecError(
            "this pytest-xdist does not keep groups together with this pytest, and the tests of "
            "one server share its launches: run without -n"
        )


def test_id(item: pytest.Item) -> str:
    """Return a test's id as it is without xdist, so that it has one name every night."""
    return item.nodeid.removesuffix(_suffix(item))


def _dealt_by_group(config: pytest.Config) -> bool:
    return getattr(config, "workerinput", {}).get("llmperf_dist") == "loadgroup"


def _suffix(item: pytest.Item) -> str:
    """Return what xdist adds to a test's id: all its groups."""
    names = {
        str(mark.args[0] if mark.args else mark.kwargs.get("name", "default"))
        for mark in item.iter_markers(GROUP)
    }
    return f"@{'_'.join(sorted(names))}" if names else ""
