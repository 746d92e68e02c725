"""Catalogs: the module's name is the key."""

import sys

import pytest

from pytest_llmperf.catalog import Catalog
from pytest_llmperf.errors import UnknownNameError


@pytest.fixture
def colours(tmp_path, monkeypatch):
    """A package of two entries and a helper."""
    package = tmp_path / "paintbox"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "red.py").write_text("COLOUR = 'rot'\n")
    (package / "blue.py").write_text("COLOUR = 'blau'\n")
    (package / "_mix.py").write_text("raise RuntimeError('a helper is no entry')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield Catalog("colour", "paintbox")
    for name in [name for name in sys.modules if name.startswith("paintbox")]:
        del sys.modules[name]


def test_the_modules_are_the_entries(colours):
    """Sorted names, helpers left out."""
    assert colours.names() == ("blue", "red")
    assert list(colours) == ["blue", "red"]


def test_an_entry_is_the_attribute_named_after_the_kind(colours):
    """COLOUR of each module."""
    assert colours["red"] == "rot"


def test_a_dropped_in_file_is_an_entry(colours, tmp_path):
    """One new file and no edit."""
    (tmp_path / "paintbox" / "green.py").write_text("COLOUR = 'gruen'\n")
    assert "green" in colours
    assert colours["green"] == "gruen"


def test_a_typo_answers_with_the_known_names(colours):
    """And with the close one first."""
    with pytest.raises(UnknownNameError) as caught:
        colours["bleu"]
    assert str(caught.value) == "unknown colour 'bleu'. Did you mean 'blue'? Known: blue, red"


def test_a_module_without_the_attribute_is_named(colours, tmp_path):
    """Whoever wrote it learns what it must define."""
    (tmp_path / "paintbox" / "grey.py").touch()
    with pytest.raises(UnknownNameError, match=r"module paintbox.grey defines no COLOUR"):
        colours["grey"]


def test_nothing_is_imported_before_it_is_asked_for(colours):
    """Listing names costs no import of an entry."""
    colours.names()
    assert "paintbox.red" not in sys.modules
