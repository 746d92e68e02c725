"""The page in a real browser: charts are drawn, nothing is fetched, a phone need not scroll."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.report.page import write_report
from tests.helpers import require_tool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOOK = """<!doctype html><title>waiting</title><body style="margin:0">
<iframe id="wide" style="width:1280px;height:9000px"></iframe>
<iframe id="phone" style="width:390px;height:9000px"></iframe>
<script>
const frames = ["wide", "phone"].map((id) => document.getElementById(id));
const seen = () => Object.fromEntries(frames.map((frame) => {
  const page = frame.contentDocument, root = page.documentElement;
  return [frame.id, {
    figures: page.querySelectorAll("figure.chart").length,
    drawn: [...page.querySelectorAll(".js-plotly-plot")].filter(
      (plot) => plot.querySelector("svg.main-svg .scatterlayer, svg.main-svg .barlayer")).length,
    overflow: root.scrollWidth - root.clientWidth,
  }];
}));
frames.forEach((frame) => { frame.src = "PAGE"; });
let patience = 300;
const watch = setInterval(() => {
  const done = Object.values(seen()).every(({ figures, drawn }) => figures && figures === drawn);
  if (!done && --patience) return;
  clearInterval(watch);
  document.body.textContent = JSON.stringify(seen());
}, 100);
</script>
"""


@pytest.fixture
def seen(make_run: Callable, night: Path, tmp_path: Path) -> tuple[dict, list[str]]:
    """Return what a browser made of a page 1,280 and 390 pixels wide, and its complaints."""
    chromium = require_tool("chromium", "the report is looked at in a browser")
    page = write_report(_small_run(make_run, night), tmp_path / "report")
    look = page.with_name("look.html")
    look.write_text(LOOK.replace("PAGE", page.name))
    ended = subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--allow-file-access-from-files",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=1700,9100",
            "--virtual-time-budget=40000",
            "--enable-logging=stderr",
            "--dump-dom",
            look.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = re.search(r"<body[^>]*>({.*})</body>", ended.stdout)
    assert found, f"no answer from the page:\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
    complaints = [line for line in ended.stderr.splitlines() if ":CONSOLE" in line]
    return json.loads(found[1]), complaints


def _small_run(make_run: Callable, night: Path) -> Path:
    """Write a run with one chart of every kind: two launches of one server on one traffic."""
    from pytest_llmperf.model.server import ServerSpec
    from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec

    run = make_run()
    requests = tuple(Request(i, 0, Prompt("x", 100 + i, 20 + i % 9)) for i in range(32))
    traffic = Traffic(TrafficSpec("chat", "random", max_concurrency=8), requests)
    spec = ServerSpec.of("a-server-with-a-name-that-is-rather-long", "vllm", "m", ["-tp", "2"])
    run.measure(spec.name, spec, [traffic], launches=2, replays=2)
    run.folder.finish("passed")
    return run.folder.path


def test_the_page_works_in_a_browser(seen: tuple[dict, list[str]]) -> None:
    """Every chart is drawn, the console is silent and the page no wider than its window.

    The page's policy forbids every request but its own script, and a forbidden one is an
    error on the console: silence means that nothing was asked of the network.
    """
    pages, complaints = seen
    assert complaints == []
    for page in pages.values():
        # 4 gated figures, TTFT and ITL, throughput, memory, lengths.
        assert (page["figures"], page["drawn"], page["overflow"]) == (9, 9, 0)
