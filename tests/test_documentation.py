"""Documentation that does not drift: lists are complete, commands exist, code blocks run."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pytest_llmperf.metrics import METRICS, gated_figures
from pytest_llmperf.plugin.options import OPTIONS

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def test_every_option_is_documented():
    """docs/options.md has a row an option, and no other."""
    rows = re.findall(r"^\| `(--llmperf-[a-z-]+)", (ROOT / "docs/options.md").read_text(), re.M)
    assert rows == [option.flag for option in OPTIONS]


def test_every_metric_is_documented():
    """docs/figures.md has a row a metric, with its unit, and marks those that are gated."""
    text = (ROOT / "docs/figures.md").read_text()
    table = re.findall(r"^\| `([a-z0-9_]+)` \|([^|]*)\|(.*)\|([^|]*)\|$", text, re.M)
    found = {name: (unit.strip(), gated.strip()) for name, unit, _, gated in table}
    assert set(found) == set(METRICS)
    for name, (unit, gated) in found.items():
        assert unit == METRICS[name].unit, name
        wanted = sorted(of.name for of in gated_figures() if of.metric.name == name)
        shown = [name] if gated == "yes" else re.findall(r"`([^`]+)`", gated)
        assert sorted(shown) == wanted, name


def test_every_make_target_in_the_documents_exists():
    """`make demo` and its like."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for page in PAGES:
        assert set(re.findall(r"`make ([a-z-]+)", page.read_text())) <= targets, page


def test_every_call_of_the_command_in_the_documents_exists():
    """`pytest-llmperf bench` and its like."""
    calls = {path.stem for path in (ROOT / "pytest_llmperf/cli").glob("[a-z]*.py")}
    for page in PAGES:
        assert set(re.findall(r"`pytest-llmperf ([a-z]+)", page.read_text())) <= calls, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_are_python(page):
    """They parse, and what they import from here is there."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_llm"):
                module = __import__(node.module, fromlist=["x"])
                for name in node.names:
                    assert hasattr(module, name.name), f"{node.module}.{name.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    """Relative links only; the outside is not asked."""
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
