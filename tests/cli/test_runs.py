from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from pytest_llmperf.cli._run_index import find_run, folder_of
from pytest_llmperf.errors import UsageError
from tests.cli.conftest import H200


def listed(call, runs, *words):
    status, out, _ = call("runs", "--runs", runs.root, "--format", "json", *words)
    assert status == 0
    return json.loads(out)


def test_a_real_run_is_told_in_a_line(call):
    """Id, time, outcome, verdicts, server and machine of a run on an H200."""
    status, out, _ = call("runs", "--runs", H200.parent)
    head, line = out.splitlines()
    assert status == 0
    assert head.split() == ["run", "started", "outcome", "verdicts", "servers", "machine"]
    for part in (H200.name, "passed", "1 PASSED", "qwen3-14b", "nvidia-h200-x1-ed3a3734"):
        assert f"  {part}" in f"  {line}"
    assert "SIMULATED" not in line


def test_runs_of_the_simulator_are_marked(call, starter):
    """Both sessions are listed, newest first, with verdicts counted and SIMULATED said."""
    status, out, _ = call("runs", "--runs", starter.path / ".llmperf" / "runs")
    _, second, first = out.splitlines()
    assert status == 0
    assert "1 NO_BASELINE" in first
    assert "1 REGRESSED" in second
    assert first.endswith("SIMULATED")
    assert second.endswith("SIMULATED")


def test_newest_first_and_no_more_than_asked_for(call, runs):
    """--limit cuts the old end, and says so; 0 takes all."""
    for day in (1, 3, 2):
        runs.add(f"run-{day}", f"2026-12-0{day}T10:00:00+00:00")
    assert [run["id"] for run in listed(call, runs)] == ["run-3", "run-2", "run-1"]
    assert [run["id"] for run in listed(call, runs, "--limit", "2")] == ["run-3", "run-2"]
    assert len(listed(call, runs, "--limit", "0")) == 3
    assert "older runs are left out" in call("runs", "--runs", runs.root, "--limit", "2")[2]
    assert call("runs", "--runs", runs.root, "--limit", "3")[2] == ""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--server", "qwen3-14b"), 1),
        (("--server", "qwen3"), 0),
        (("--traffic", "chat"), 1),
        (("--traffic", "burst"), 0),
        (("--status", "passed"), 1),
        (("--status", "REGRESSED"), 0),
        (("--since", "2026-12-01"), 1),
        (("--since", "2026-12-03"), 0),
        (("--since", "2026-12-01T23:59:00+00:00"), 0),
    ],
)
def test_filters(call, runs, words, found):
    """Server and traffic by name, status in any case, and the time it started."""
    runs.add("run", "2026-12-01T23:00:00+00:00" if "T" in words[1] else "2026-12-02T12:00:00+00:00")
    assert len(listed(call, runs, *words)) == found


def test_since_takes_an_age(call, runs):
    """Three days ago is within 4d and 73h, not within 2d."""
    runs.add("run", (datetime.now(UTC) - timedelta(days=3)).isoformat())
    counts = [len(listed(call, runs, "--since", age)) for age in ("4d", "73h", "2d")]
    assert counts == [1, 1, 0]


@pytest.mark.parametrize("text", ["yesterday", "3x", "99999999999d"])
def test_a_moment_that_is_none_is_refused(call, runs, text):
    """The message shows what is understood."""
    status, _, err = call("runs", "--runs", runs.root, "--since", text)
    assert status == 2
    assert "2026-11-30" in err


def test_damaged_and_unfinished_runs_are_listed_as_such(call, runs):
    """A broken verdict, a broken time, a missing header and a run that is going on; no crash."""
    runs.add("whole")
    broken = runs.add("broken")
    next((broken / "verdicts").glob("*.json")).write_text('{"schema": 1, "verdict": [')
    runs.add("odd-verdict")
    next((runs.root / "odd-verdict" / "verdicts").glob("*.json")).write_text(
        '{"schema": 1, "verdict": ["a", "list"]}'
    )
    runs.add("timeless", started="once upon a time")
    (runs.add("going-on") / "run.json").unlink()
    (runs.root / "headless").mkdir()
    found = {run["id"]: run for run in listed(call, runs)}
    assert {name: run["state"] for name, run in found.items()} == {
        "whole": "finished",
        "broken": "damaged",
        "odd-verdict": "damaged",
        "timeless": "damaged",
        "going-on": "unfinished",
        "headless": "damaged",
    }
    status, out, _ = call("runs", "--runs", runs.root)
    assert status == 0
    assert "broken is damaged: " in out
    assert "headless is damaged: it has no header.json" in out


def test_csv_has_a_column_a_status(call, runs):
    """For a spreadsheet: counts are numbers, names are separated by spaces."""
    runs.add("run")
    _, out, _ = call("runs", "--runs", runs.root, "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["id"], row["state"], row["servers"]) == ("run", "finished", "qwen3-14b")
    assert (row["PASSED"], row["REGRESSED"], row["simulated"]) == ("1", "0", "False")


def test_nothing_there_is_said(call, runs):
    """With the folder that was looked into; one that was named and is missing is an error."""
    assert call("runs", "--runs", runs.root)[:2] == (0, f"no such run under {runs.root}\n")
    status, _, err = call("runs", "--runs", runs.root / "none")
    assert (status, "no such folder" in err) == (2, True)


def test_the_runs_of_the_folder_above_are_found(runs, tmp_path, monkeypatch):
    """As pytest finds its rootdir, whichever folder one stands in."""
    inner = tmp_path / "suites" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / ".llmperf").mkdir()
    runs.root.rename(tmp_path / ".llmperf" / "runs")
    monkeypatch.chdir(inner)
    assert folder_of(None) == tmp_path / ".llmperf" / "runs"


def test_what_a_word_means(runs):
    """Newest, the one before, an id, the beginning of one, or a folder."""
    first = runs.add("20261201-aaaa", "2026-12-01T10:00:00+00:00")
    second = runs.add("20261202-bbbb", "2026-12-02T10:00:00+00:00")
    for word, found in (
        ("latest", second),
        ("previous", first),
        ("20261201-aaaa", first),
        ("20261202", second),
        (str(first), first),
        (str(H200), H200),
    ):
        assert find_run(word, runs.root).path == found


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("2026", "could be any of 2 runs: 20261202-bbbb, 20261201-aaaa"),
        ("2025", "no run is called '2025'"),
    ],
)
def test_a_word_that_means_no_one_run(runs, word, said):
    """Several: which; none: which there are."""
    runs.add("20261201-aaaa", "2026-12-01T10:00:00+00:00")
    runs.add("20261202-bbbb", "2026-12-02T10:00:00+00:00")
    with pytest.raises(UsageError, match=said):
        find_run(word, runs.root)


def test_previous_needs_two_runs(runs):
    """One is not enough."""
    runs.add("only")
    with pytest.raises(UsageError, match="has 1 of the 2 runs needed"):
        find_run("previous", runs.root)
