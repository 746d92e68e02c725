"""The page as a whole: safe, self-contained, small, readable without a script."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_llmperf.errors import StoreError
from pytest_llmperf.metrics import figures_of
from pytest_llmperf.model.record import ClientHealth, Replay, RequestRecord
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.report.page import write_report
from pytest_llmperf.store.runs import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VOID = {"meta", "link", "br", "line", "circle"}


class Page(HTMLParser):
    """What a browser without a script sees of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.scripts: list[str] = []
        self.charts: list[str] = []
        self.headings: list[int] = []
        self.unlabelled: list[str] = []
        self.text = ""
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.html = path.read_text(encoding="utf-8")
        self.feed(self.html)
        assert self._open == [], "elements left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element is for."""
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []
        self.links += [given["href"] or ""] if tag == "a" else []
        self.sources += [given[k] or "" for k in ("src", "srcset") if k in given]
        if re.fullmatch(r"h\d", tag):
            self.headings.append(int(tag[1]))
        if tag == "th" and given.get("scope") not in ("row", "col"):
            self.unlabelled.append("th without scope")
        if given.get("role") in ("img", "region") and not given.get("aria-label"):
            self.unlabelled.append(f"{given['role']} without a name")
        if tag not in VOID:
            self._open.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        """Hold that elements are closed in turn."""
        if tag in VOID:
            return
        opened, _ = self._open.pop()
        assert opened == tag, f"<{opened}> closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        """Tell text from scripts and styles."""
        tag, given = self._open[-1] if self._open else ("", {})
        if tag == "script":
            target = self.charts if given.get("type") == "application/json" else self.scripts
            target.append(data)
        elif tag != "style":
            self.text += data


@pytest.fixture(scope="module")
def report(night: Path) -> Path:
    """Return the page of the whole night."""
    return write_report(night, night.parent.parent / "report")


def test_the_page_is_named_after_the_run(report: Path) -> None:
    """Beside it lie the list of runs, its entry there, and plotly's script."""
    names = sorted(path.name for path in report.parent.iterdir())
    assert names == [
        "20261130-031500-3f2a.html",
        "20261130-031500-3f2a.json",
        "index.html",
        "plotly.min.js",
    ]


def test_the_page_is_well_formed(report: Path) -> None:
    """Every element is closed, every id used once, every link within the page has a target."""
    page = Page(report)
    assert len(page.ids) == len(set(page.ids))
    within = [link[1:] for link in page.links if link.startswith("#")]
    assert set(within) - set(page.ids) == set()
    outside = [link for link in page.links if not link.startswith("#")]
    assert [link for link in outside if not (report.parent / link).is_file()] == []


def test_the_page_needs_no_network(report: Path) -> None:
    """Its one source lies beside it, and its policy would block any other."""
    page = Page(report)
    assert page.sources == ["plotly.min.js"]
    assert "default-src 'none'" in page.html
    assert "url(" not in page.html
    assert "@import" not in page.html


def test_the_page_can_be_read_aloud(report: Path) -> None:
    """One h1, no level of heading skipped, tables and pictures with names."""
    page = Page(report)
    assert page.headings.count(1) == 1
    assert page.headings[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(page.headings))
    assert page.unlabelled == []


def test_every_chart_has_data_and_words(report: Path) -> None:
    """Valid JSON for plotly, and an alternative that says the figures.

    Five servers with 4 gated figures and a pair with 5, two latencies and a throughput each,
    one memory budget, two traffics: 25 + 6 * 3 + 1 + 2 = 46.
    """
    page = Page(report)
    charts = [json.loads(chart) for chart in page.charts]
    assert len(charts) == page.html.count('role="img"') == 46
    assert all(chart["data"] for chart in charts)
    alts = re.findall(r'role="img" aria-label="([^"]+)"', page.html)
    assert all(re.search(r"\d|Histogram", alt) for alt in alts)


def test_without_a_script_the_figures_are_there(report: Path) -> None:
    """Tables, reasons, log and arguments need no chart."""
    text = Page(report).text
    for said in (
        "1 regressed, 2 undecided, of 6 tests",
        "6.9 % higher than 10 accepted nights",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "--quantization awq_marlin",
        "--api-key ***",
        "767,862",
    ):
        assert said in text


def test_secrets_are_not_on_the_page(make_run: Callable, tmp_path: Path) -> None:
    """A key that a server printed into its log is masked where the log is shown."""
    run = make_run()
    run.folder.launch("a", "a", 1).log.write_text("args: {'api_key': ['hunter2hunter2']}\n")
    page = Page(write_report(run.folder.path, tmp_path / "report"))
    assert "args: {'api_key': ***}" in page.text
    assert "hunter2" not in page.html


HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"


def test_whatever_a_run_says_is_shown_as_text(make_run: Callable, tmp_path: Path) -> None:
    """Names, reasons, messages, notes, options and log lines make no elements."""
    run = make_run(command=HOSTILE, options={HOSTILE: HOSTILE}, versions={HOSTILE: HOSTILE})
    folder = run.folder
    spec = ServerSpec.of("a", "vllm", HOSTILE, [f"--served-model-name={HOSTILE}"], {"X": HOSTILE})
    requests = tuple(Request(i, i * 1000, Prompt("x", 10 + i, 20)) for i in range(4))
    traffic = Traffic(
        TrafficSpec("chat", HOSTILE, headers=(("x", HOSTILE),)), requests, HOSTILE, (HOSTILE,)
    )
    run.measure("a", spec, [traffic], launches=1, replays=2, invalid={(1, 1): HOSTILE})
    folder.launch("a", "a", 1).log.write_text(f"{HOSTILE}\n")
    finding = Finding(
        f"ttft.{HOSTILE}", Status.REGRESSED, HOSTILE, value=2.0, reference=1.0, change=1.0,
        unit=HOSTILE, interval=(0.5, 1.5),
    )  # fmt: skip
    verdict = Verdict(HOSTILE, HOSTILE, HOSTILE, (finding,), (HOSTILE,), against=HOSTILE)
    folder.write_verdict(verdict, HOSTILE)
    folder.write_verdict(replace(verdict, server="a", traffic="chat", against=None), HOSTILE)
    folder.note(HOSTILE)
    folder.finish(HOSTILE)
    page = Page(write_report(folder.path, tmp_path / "report"))
    assert page.sources == ["plotly.min.js"]
    assert len(page.scripts) == 1
    assert "<img" not in page.html
    assert "<script>alert" not in page.html
    assert page.text.count(HOSTILE) > 20
    index = Page(tmp_path / "report" / "index.html")
    assert (index.sources, index.scripts) == ([], [])
    assert HOSTILE in index.text


def test_a_run_that_only_began_has_a_page(make_run: Callable, tmp_path: Path) -> None:
    """It says that it is unfinished and that nothing was judged."""
    run = make_run()
    text = Page(write_report(run.folder.path, tmp_path / "report")).text
    assert "UNFINISHED" in text
    assert "Nothing was judged" in text
    assert "unfinished" in Page(tmp_path / "report" / "index.html").text


def test_a_replay_in_which_all_failed_has_a_page(make_run: Callable, tmp_path: Path) -> None:
    """No latency, no token, no duration: the reason is what there is to show."""
    run = make_run()
    refused = RequestRecord(0, 5, None, (), (), None, 20, error="connection refused")
    traffic = Traffic(TrafficSpec("chat", "random"), (Request(0, 0, Prompt("x", 10, 20)),))
    health = ClientHealth(0, 0, 0, 0.0, 0.0, 0.0)
    replay = Replay("chat", traffic.digest, (refused,), None, None, "process", health, "")
    launch = run.folder.launch("a", "a", 1)
    launch.write_replay(traffic, 1, replay, figures_of(replay), invalid="1 of 1 requests failed")
    page = Page(write_report(run.folder.path, tmp_path / "report"))
    assert "1 of 1 requests failed" in page.text
    assert "No time to first token was measured." in page.text


def test_simulated_is_said_wherever_a_run_is_shown(make_run: Callable, tmp_path: Path) -> None:
    """On its page and in the list."""
    run = make_run(simulated=True)
    assert "SIMULATED" in Page(write_report(run.folder.path, tmp_path)).text
    assert "SIMULATED" in Page(tmp_path / "index.html").text


def test_runs_are_listed_newest_first(make_run: Callable, tmp_path: Path) -> None:
    """By the instant they began; each links to its page; what cannot be read is there by name."""
    for run_id, started in (
        ("older", "2026-11-29T23:30:00+00:00"),
        ("newest", "2026-11-30T09:00:00+00:00"),
        ("newer", "2026-11-30T09:30:00+01:00"),
    ):
        write_report(make_run(run_id, started_at=started).folder.path, tmp_path / "out")
    (tmp_path / "out" / "broken.html").write_text("")
    (tmp_path / "out" / "broken.json").write_text("{")
    (tmp_path / "out" / "older.html").unlink()
    write_report(make_run("newest").folder.path, tmp_path / "out")
    index = Page(tmp_path / "out" / "index.html")
    assert index.links == ["newest.html", "newer.html", "broken.html"]


def test_plotly_is_written_once(make_run: Callable, tmp_path: Path) -> None:
    """It is 5 MB; only a script of another version is replaced."""
    run = make_run()
    script = tmp_path / "plotly.min.js"
    write_report(run.folder.path, tmp_path)
    first = script.stat()
    write_report(run.folder.path, tmp_path)
    assert script.stat().st_ino == first.st_ino
    script.write_text("an older version")
    write_report(run.folder.path, tmp_path)
    assert script.stat().st_size == first.st_size


def test_a_million_events_make_a_page_below_two_megabytes(
    make_run: Callable, tmp_path: Path
) -> None:
    """Four replays of 500 requests with 500 tokens each, at 20 ms a token."""
    run = make_run()
    random = np.random.default_rng(3)
    requests = tuple(Request(i, i * 20_000_000, Prompt("x", 512, 500)) for i in range(500))
    traffic = Traffic(TrafficSpec("chat", "random", num_prompts=500), requests)
    run.folder.write_traffic(traffic)
    launch = run.folder.launch("a", "a", 1)
    for number in range(1, 5):
        times = 20_000_000 * np.arange(500)[:, None] + np.cumsum(
            20_000_000 + random.normal(0, 1e6, (500, 500)).astype(np.int64), axis=1
        )
        records = tuple(
            RequestRecord(i, i, i * 20_000_000, row, np.ones(500, int), int(row[-1]), 500, 512, 500)
            for i, row in enumerate(times)
        )
        health = ClientHealth(0, 0, 0, 1.0, 20.0, 0.1)
        replay = Replay("chat", traffic.digest, records, 50.0, None, "kernel", health, "")
        launch.write_replay(traffic, number, replay, {"output_tps": 12_000.0 + number})
    page = write_report(run.folder.path, tmp_path / "report")
    assert "1,996,000" not in page.read_text()
    assert "998,000" in page.read_text()
    assert page.stat().st_size < 300_000


def test_a_folder_that_is_no_run_makes_no_page(tmp_path: Path) -> None:
    """Nothing is written where nothing can be read."""
    with pytest.raises(StoreError, match="is not the folder of a run"):
        write_report(tmp_path, tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_pages_are_written_anew_as_a_run_goes_on(make_run: Callable, tmp_path: Path) -> None:
    """The page of a running run is replaced by that of the finished one."""
    run = make_run()
    write_report(run.folder.path, tmp_path / "report")
    RunFolder(run.folder.path).finish("passed")
    text = Page(write_report(run.folder.path, tmp_path / "report")).text
    assert "UNFINISHED" not in text
    assert "outcome: passed" in text
