"""``pytest-llmperf baseline``: what was accepted, and what a change to it means."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest

from pytest_llmperf.cli import main
from pytest_llmperf.model.baseline import Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.store.baselines import BaselineStore

H200 = Machine("NVIDIA H200", 1, driver_branch="580")
BASE = ServerSpec.of("base", "vllm", "Qwen/Qwen3-14B", ["--max-model-len", "8192"])
AWQ = ServerSpec.of("awq", "vllm", "Qwen/Qwen3-14B-AWQ")
CHAT = Traffic(TrafficSpec("chat", "random", seed=7), (Request(0, 0, Prompt("Hello", 5, 7)),))


def night(day, tps=1000.0, version="0.25.1", run=None):
    """Return a night of two launches, 1 % around a mean."""
    figures = {
        "output_tps": ((tps * 0.99,) * 2, (tps * 1.01,) * 2),
        "kv_tokens": ((650560.0,), (650560.0,)),
        "e2el.mean": ((1800.0, 1800.0),) * 2,
    }
    provenance = {
        "accepted_by": "ci",
        "engine_version": version,
        "run": run or f"run-{day}",
        "status": "PASSED",
    }
    return Night(f"2026-11-{day:02}", "gpu-1", figures, provenance)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Three nights of a server and one of a pair, in ``baselines`` of the folder we are in."""
    monkeypatch.chdir(tmp_path)
    store = BaselineStore(tmp_path / "baselines")
    for day, tps in ((1, 1000.0), (2, 1010.0), (3, 1020.0)):
        store.accept(H200, BASE, CHAT, night(day, tps))
    ratios = Night("2026-11-03", "gpu-1", {"output_tps": ((1.25,), (1.27,), (1.26,))})
    store.accept(H200, AWQ, CHAT, ratios, against=BASE)
    return store


def call(capsys, *words):
    """Return exit status, output and errors of the call."""
    status = main(["baseline", *words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def cells(text):
    """Return each line's words, so that column widths do not matter."""
    return [line.split() for line in text.splitlines()]


class TestShow:
    """What is stored, in a table or one by one."""

    def test_the_table_has_a_line_a_file(self, store, capsys):
        """Machine by machine: server or pair, traffic, digest, nights, last night, anchor."""
        status, out, _ = call(capsys, "show")
        assert status == 0
        lines = cells(out)
        assert lines[0] == [H200.key]
        assert ["base", "chat", CHAT.digest, "3", "2026-11-03", "2026-11-01"] in lines
        assert ["awq", "/", "base", "chat", CHAT.digest, "1", "2026-11-03", "2026-11-03"] in lines

    def test_one_is_shown_with_nights_figures_and_noise(self, store, capsys):
        """Launch means 990 and 1010: CV 14.14/1000 = 1.41 %; nights of 1000 to 1020: sd 0.99 %.

        ln 1000, ln 1010 and ln 1020 lie 0.00995 and 0.00985 apart; their sd is 0.0099.
        """
        status, out, _ = call(capsys, "show", "*/base/chat")
        assert status == 0
        assert "server   base: vllm Qwen/Qwen3-14B --max-model-len 8192" in out
        assert "gpu_model NVIDIA H200" in out
        assert "seed 7" in out
        assert "anchor   2026-11-01 on gpu-1: first accepted night (ci," in out
        lines = cells(out)
        row = "2026-11-02 gpu-1 2 launches × 2 replays 0.25.1 PASSED ci run-2"
        assert row.split() in lines
        tps = "output_tps tok/s 999.9 ±1.41 % 1,010 ±1.41 % 1,020 ±1.41 % 0.99 % (2)"
        assert tps.split() in lines
        assert not [line for line in lines if line[:1] == ["e2el.mean"]], "gated ones only"

    def test_ratios_say_what_they_are_of(self, store, capsys):
        """Both servers, and the unit."""
        _, out, _ = call(capsys, "show", f"{H200.key}/awq-vs-base")
        assert "server   awq: vllm Qwen/Qwen3-14B-AWQ" in out
        assert "against  base: vllm Qwen/Qwen3-14B --max-model-len 8192" in out
        assert ["output_tps", "×", "1.26", "±0.79", "%", "–"] in cells(out)

    def test_the_last_nights_and_any_figure(self, store, capsys):
        """``--nights`` and ``--figure`` choose, ``--all`` takes every figure."""
        _, out, _ = call(capsys, "show", "*/base", "--nights", "1", "--figure", "e2el.mean")
        assert ["e2el.mean", "ms", "1,800", "±0.00", "%", "0.00", "%", "(2)"] in cells(out)
        assert "output_tps" not in out
        _, out, _ = call(capsys, "show", "*/base", "--all")
        assert {"e2el.mean", "output_tps", "kv_tokens"} <= {line[0] for line in cells(out) if line}

    def test_json_has_everything(self, store, capsys):
        """Every file with every figure."""
        _, out, _ = call(capsys, "show", "--json")
        base = next(one for one in json.loads(out) if one["against"] is None)
        assert base["name"] == f"{H200.key}/base/chat"
        assert [n["figures"]["e2el.mean"]["mean"] for n in base["nights"]] == [1800.0] * 3
        assert base["noise"]["output_tps"]["df"] == 2

    def test_a_damaged_file_is_named_and_the_others_are_shown(self, store, capsys):
        """Exit status 1, and nothing else is lost."""
        store.path(H200, "awq", "chat", against="base").write_text("{")
        status, out, err = call(capsys, "show")
        assert status == 1
        assert "awq-vs-base/chat.json is damaged" in err
        assert "base  " in out

    def test_a_name_that_means_nothing_is_told(self, store, capsys):
        """With what there is."""
        status, _, err = call(capsys, "show", "*/bse")
        assert status == 2
        assert f"There are: {H200.key}/awq-vs-base/chat, {H200.key}/base/chat" in err

    def test_a_typo_in_a_figure_is_told(self, store, capsys):
        """As everywhere, with the known ones."""
        status, _, err = call(capsys, "show", "*/base", "--figure", "ttft.p98")
        assert status == 2
        assert "ttft.p99" in err

    def test_nothing_stored(self, tmp_path, monkeypatch, capsys):
        """Says so, and how to begin; a folder that was given must be there."""
        monkeypatch.chdir(tmp_path)
        status, out, _ = call(capsys, "show")
        assert (status, "--llmperf-accept" in out) == (0, True)
        assert call(capsys, "show", "--baselines", "gone")[0] == 2


class TestDiff:
    """What changed, in words."""

    def test_two_files(self, store, tmp_path, capsys):
        """Another branch's baseline: a night less, one more, another argument and version.

        Means of 1000, 1010, 1020 (geometric 1009.967) and 1000, 1010, 900: 968.67, −4.1 %.
        """
        other = BaselineStore(tmp_path / "theirs")
        slower = BASE.with_arguments(["--max-num-seqs", "64"])
        for day, tps in ((1, 1000.0), (2, 1010.0), (4, 900.0)):
            path = other.accept(H200, slower, CHAT, night(day, tps, version="0.26.0"))
        status, out, _ = call(capsys, "diff", "*/base/chat", str(path))
        assert status == 0
        assert "  arguments + --max-num-seqs 64\n" in out
        assert "  engine version 0.25.1 → 0.26.0\n" in out
        assert (
            "  + night 2026-11-04 on gpu-1: 2 launches × 2 replays, engine 0.26.0, PASSED, by ci, "
            "run run-4\n"
        ) in out
        assert "  − night 2026-11-03 on gpu-1" in out
        tps = "output_tps 1,010 968.6 tok/s −4.1 % worse −3.1 %"
        assert tps.split() in cells(out)
        assert ["kv_tokens", "650,560", "650,560", "tokens", "+0.0", "%", "+0.0", "%"] in cells(out)

    def test_what_is_never_compared_says_so(self, store, tmp_path, capsys):
        """Another machine and another traffic, field by field."""
        other = BaselineStore(tmp_path / "theirs")
        long = Traffic(replace(CHAT.spec, seed=8), CHAT.requests * 2)
        path = other.accept(replace(H200, driver_branch="570"), BASE, long, night(1))
        _, out, _ = call(capsys, "diff", "*/base/chat", str(path))
        assert "machine driver_branch: 580 → 570" in out
        assert f"traffic chat {CHAT.digest} → chat {long.digest}" in out
        assert "traffic, seed: 7 → 8" in out
        assert "these are never compared with one another" in out

    def test_the_same_twice(self, store, capsys):
        """Nothing differs."""
        _, out, _ = call(capsys, "diff", "*/base/chat", "*/base/chat")
        assert out.endswith("  nothing differs\n")

    def test_one_is_not_two(self, store, capsys):
        """Nor are three, nor a pattern that means several."""
        assert call(capsys, "diff", "*/base/chat")[0] == 2
        status, _, err = call(capsys, "diff", "*", "*/base")
        assert status == 2
        assert "means 2 files" in err

    def test_json(self, store, tmp_path, capsys):
        """The same as plain values, with every figure."""
        path = BaselineStore(tmp_path / "theirs").accept(H200, BASE, CHAT, night(1, 500.0))
        _, out, _ = call(capsys, "diff", "*/base/chat", str(path), "--json")
        (found,) = json.loads(out)["changed"]
        assert found["figures"]["output_tps"]["means"] == "worse"
        assert found["figures"]["e2el.mean"]["change"] == 0.0
        assert len(found["nights"]["removed"]) == 2


@pytest.fixture
def committed(store):
    """The same, committed in git."""

    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words],
            cwd=store.root.parent,
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "nights")
    return store


class TestSince:
    """What a pull request changes: the files against a revision."""

    def test_a_new_night(self, committed, capsys):
        """Only the file that it is in is told; the others are counted."""
        committed.accept(H200, BASE, CHAT, night(4, 1030.0))
        status, out, _ = call(capsys, "diff", "--git", "HEAD")
        assert status == 0
        assert "+ night 2026-11-04" in out
        assert "awq" not in out
        assert out.endswith("as it was at HEAD: 1 of 2 files\n")

    def test_launches_that_were_added_and_values_that_were_edited(self, committed, capsys):
        """A second session of a night is told from a hand that changed accepted values."""
        committed.accept(H200, BASE, CHAT, night(3, 1000.0, run="again"))
        _, out, _ = call(capsys, "diff", "--git", "HEAD")
        assert "~ night 2026-11-03 on gpu-1: 2 launches added, run run-3, again" in out
        path = committed.path(H200, "base", "chat")
        path.write_text(path.read_text().replace("[1800, 1800]", "[1700, 1800]", 1))
        _, out, _ = call(capsys, "diff", "--git", "HEAD")
        assert (
            "~ night 2026-11-01 on gpu-1: values that were accepted are others now: e2el.mean"
        ) in out

    def test_new_and_gone_files(self, committed, capsys):
        """Both are told, with their nights."""
        committed.path(H200, "awq", "chat", against="base").unlink()
        new = committed.accept(H200, AWQ, CHAT, night(5))
        _, out, _ = call(capsys, "diff", "--git", "HEAD")
        assert f"{new.relative_to(committed.root.parent)} is new since HEAD: nights 1" in out
        assert "awq-vs-base/chat.json was there at HEAD and is gone: nights 1" in out

    def test_a_damaged_file(self, committed, capsys):
        """Is named, and the others are told."""
        committed.accept(H200, BASE, CHAT, night(4))
        committed.path(H200, "awq", "chat", against="base").write_text("{")
        status, out, err = call(capsys, "diff", "--git", "HEAD")
        assert status == 1
        assert "awq-vs-base/chat.json is damaged" in err
        assert "+ night 2026-11-04" in out

    def test_no_such_revision(self, committed, capsys):
        """An error that names it; it is never taken for an option of git."""
        for revision in ("nowhere", "--output=x"):
            status, _, err = call(capsys, "diff", f"--git={revision}")
            assert status == 2
            assert revision in err

    def test_no_repository(self, store, capsys):
        """Git says so."""
        status, _, err = call(capsys, "diff", "--git", "HEAD")
        assert status == 2
        assert "not a git repository" in err
