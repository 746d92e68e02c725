"""The nearest folder of a name."""

from __future__ import annotations

from pathlib import Path

from pytest_llmperf.cli._folders import nearest


def test_the_nearest_of_the_folders_above_is_taken(tmp_path, monkeypatch):
    """From anywhere in a project; a file of the name is no such folder."""
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert nearest(Path("kept", "runs")) is None
    (tmp_path / "kept" / "runs").mkdir(parents=True)
    assert nearest(Path("kept", "runs")) == tmp_path / "kept" / "runs"
    (deep / "kept").mkdir()
    (deep / "kept" / "runs").write_text("")
    assert nearest(Path("kept", "runs")) == tmp_path / "kept" / "runs"
    (tmp_path / "a" / "kept" / "runs").mkdir(parents=True)
    assert nearest(Path("kept", "runs")) == tmp_path / "a" / "kept" / "runs"
