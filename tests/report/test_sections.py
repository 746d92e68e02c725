"""Sections: adding one is one new file; each shows what it is for."""

from __future__ import annotations

import sys
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.traffic import TrafficSpec
from pytest_llmperf.model.verdict import Finding, Status
from pytest_llmperf.report import sections
from pytest_llmperf.report.context import Context
from pytest_llmperf.report.page import write_report
from pytest_llmperf.report.sections import SECTIONS, latency, launches, log, memory, server, summary
from pytest_llmperf.report.sections.traffic import recipe
from pytest_llmperf.store.runs import load_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def context(night: Path) -> Context:
    """Return the whole night."""
    return Context(load_run(night), night.parent.parent / "report")


@pytest.fixture
def new_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put one new file beside the sections."""
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "energy.py").write_text(
        "from markupsafe import Markup\n"
        "from pytest_llmperf.report.section import Section\n"
        "SECTION = Section('Energy', 45, lambda context: Markup('<p>42 J a token</p>'))\n"
    )
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(folder)])
    yield
    sys.modules.pop("pytest_llmperf.report.sections.energy", None)


@pytest.mark.usefixtures("new_section")
def test_a_new_file_is_a_new_section(make_run: Callable, tmp_path: Path) -> None:
    """It gets its heading, its place by order, and a link, without an edit elsewhere."""
    run = make_run()
    page = write_report(run.folder.path, tmp_path / "report").read_text()
    assert '<h2 id="energy-title">Energy</h2>\n<p>42 J a token</p>' in page
    assert '<a href="#energy">Energy</a>' in page
    assert page.index('id="summary"') < page.index('id="energy"') < page.index('id="server"')


def test_sections_of_a_run_without_anything_are_left_out(make_run: Callable) -> None:
    """A run that only began has a summary and its surroundings, no empty headings."""
    run = make_run()
    empty = Context(load_run(run.folder.path), run.folder.path)
    shown = [name for name in SECTIONS if SECTIONS[name].render(empty) is not None]
    assert shown == ["server", "summary"]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], "Nothing was judged"),
        (["PASSED"], "The test passed"),
        (["PASSED", "IMPROVED", "PASSED"], "All 3 tests passed, 1 improved"),
        (["REGRESSED", "PASSED"], "1 regressed, of 2 tests"),
        (["REGRESSED", "SLO_VIOLATED", "INVALID"],
         "1 regressed, 1 broke a limit, 1 undecided, of 3 tests"),
        (["INCONCLUSIVE", "PASSED"], "No regression seen, but 1 of 2 tests undecided"),
        (["INVALID", "NO_BASELINE"], "No test could be judged"),
    ],
)  # fmt: skip
def test_the_headline_answers_whether_it_regressed(statuses: list[str], expected: str) -> None:
    """Ten seconds are enough for one line; what is undecided never hides in a pass."""
    from collections import Counter

    assert summary.headline(Counter(map(Status, statuses))) == expected


def test_the_summary_has_a_cell_for_each_test(context: Context) -> None:
    """Four rows with six statuses; a server died and says so below."""
    page = summary.render(context)
    assert page.count('<th scope="row">') == 4
    assert page.count('href="#figures-qwen3') == 6 + 4
    assert "qwen3-14b-tp2, launch 1 has no facts: the server was never ready" in page
    assert "Also: output_tps regressed" in page


def test_what_was_replayed_and_not_judged_is_in_the_matrix(make_run: Callable, night: Path) -> None:
    """A run that was cut short must not look as if all had been judged."""
    run = make_run()
    spec = replace(load_run(night).launches[0].spec, name="a")
    run.measure("a", spec, [_traffic(night)], launches=1, replays=1)
    page = summary.render(Context(load_run(run.folder.path), run.folder.path))
    assert "Not judged" in page
    assert '<p class="headline">Nothing was judged</p>' in page


def _traffic(night: Path):
    from pytest_llmperf.model.traffic import Prompt, Request, Traffic

    spec = TrafficSpec("chat", "random", num_prompts=4, max_concurrency=4)
    return Traffic(spec, tuple(Request(i, 0, Prompt("x", 10, 20)) for i in range(4)))


def test_invalid_replays_without_an_invalid_verdict_are_told(make_run: Callable, night) -> None:
    """A replay that cannot be trusted is in the summary with its reason."""
    run = make_run()
    spec = replace(load_run(night).launches[0].spec, name="a")
    run.measure(
        "a", spec, [_traffic(night)], launches=1, replays=2, invalid={(1, 2): "client-bound"}
    )
    page = summary.render(Context(load_run(run.folder.path), run.folder.path))
    assert "a / chat, launch 1, replay 2: client-bound" in page


def test_figures_show_the_judgement_and_all_that_was_measured(context: Context) -> None:
    """Baseline, now, change and interval in a row; without a baseline every figure is open."""
    page = SECTIONS["figures"].render(context)
    assert page is not None
    row = page[page.index("Time to first token") :]
    assert ">338.4<" in row
    assert ">361.3<" in row
    assert "assumed" in row
    opened = page.count('<details class="block" open>\n<summary><h3>All figures of')
    assert opened == 1
    assert "queue_delay" in page


def test_points_stand_beside_the_accepted_nights(context: Context) -> None:
    """Ten nights left of the launches, nine replays, three means, the band below the baseline."""
    measured = context.measured[0]
    judged = context.verdicts_on(measured)[0]
    finding = judged.findings[0]
    chart = launches.chart(context, measured, "output_tps", [(judged, finding)])
    night_points, replays, means = chart.traces
    assert (len(night_points["x"]), max(night_points["x"]) < 0.5) == (10, True)
    assert (len(replays["x"]), replays["text"][3]) == (9, "launch 2, replay 1")
    assert [round(x) for x in replays["x"]] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert means["y"][0] == pytest.approx(fmean(replays["y"][:3]))
    line, band = chart.layout["shapes"]
    assert (line["y0"], band["y0"]) == (1318.0, 1318.0)
    assert band["y1"] == pytest.approx(1318.0 * 0.95)
    assert "Baseline 1,318" in chart.alt


def test_the_axis_shows_the_band_and_no_cliff_of_noise(context: Context) -> None:
    """The tolerated loss is on the axis; values 0.1 % apart do not fill it."""
    passed = next(m for m in context.measured if m.title == "qwen3-14b / chat")
    judged = context.verdicts_on(passed)[0]
    finding = next(f for f in judged.findings if f.figure == "itl.median")
    low, high = launches.chart(context, passed, "itl.median", [(judged, finding)]).layout["yaxis"][
        "range"
    ]
    assert low < 8.9
    assert high > 9.004 * 1.05
    low, high = launches.chart(context, passed, "itl.median", []).layout["yaxis"]["range"]
    assert (high - low) / 9.0 == pytest.approx(0.04, abs=0.002)


def test_invalid_replays_are_crosses_and_not_in_the_mean(context: Context) -> None:
    """Launch 2 has three replays of which the first cannot be trusted."""
    measured = context.measured[1]
    trusted, invalid, means = launches.chart(context, measured, "itl.mean", []).traces
    assert (len(trusted["x"]), len(invalid["x"])) == (5, 1)
    assert invalid["text"][0].startswith("launch 2, replay 1: 5 of 64 requests failed")
    assert means["y"][3] == pytest.approx(fmean(trusted["y"][3:]))
    page = launches.render(context)
    assert page is not None
    assert "5 of 64 requests failed (none may)" in page


def test_a_tolerance_of_the_finding_goes_first(context: Context) -> None:
    """Then the metric's own (10 % for TTFT), then the gate's 5 %."""
    ttft, tps = context.figures["ttft.p99"], context.figures["output_tps"]
    bare = Finding("x", Status.PASSED, "")
    assert launches.tolerance(replace(bare, tolerance=0.02), ttft) == 0.02
    assert launches.tolerance(bare, ttft) == 0.10
    assert launches.tolerance(bare, tps) == 0.05
    assert launches.tolerance(bare, None) == 0.05


def test_latencies_leave_invalid_replays_out(context: Context) -> None:
    """Five replays of 64 requests remain of six; the table says what was left out."""
    page = latency.render(context)
    assert page is not None
    block = page[page.index('id="latency-qwen3-0-6b-chat-') :]
    row = block[block.index("Time to first token</th>") :].split("</tr>")[0]
    assert '<td class="n">320</td>' in row
    assert row.endswith('<td class="n">1</td>')


def test_latency_limits_are_marked_at_their_percentile(context: Context) -> None:
    """A limit on p99 stands at two nines; one on the mean has no percentile."""
    measured = next(m for m in context.measured if m.title == "qwen3-14b / chat")
    curves = [latency._curve(context, measured, "qwen3-14b", "ttft")]
    (tick,) = latency.chart(context, measured, "ttft", curves).layout["shapes"]
    assert (tick["x0"] + tick["x1"]) / 2 == pytest.approx(2.0)
    assert tick["y0"] == 400.0


def test_missing_requests_cost_only_their_own_lines(make_run: Callable, night: Path) -> None:
    """A replay whose Parquet is gone is named; the other one is drawn."""
    run = make_run()
    spec = replace(load_run(night).launches[0].spec, name="a")
    run.measure("a", spec, [_traffic(night)], launches=1, replays=2)
    folder = run.folder.path
    (folder / "campaigns/a/a/launch-1/chat-1.parquet").unlink()
    context = Context(load_run(folder), folder)
    page = SECTIONS["throughput"].render(context)
    assert page is not None
    assert page.count('<th scope="row">a</th>') == 1
    assert "chat-1.parquet is damaged or cannot be read" in page


def test_a_launch_that_differs_has_a_bar_of_its_own(context: Context) -> None:
    """Equal launches of a server share a bar; what a log does not say is no part of it."""
    first = context.run.launches[0]
    other = replace(first, number=2, facts=LaunchFacts(kv_gib=90.0))
    chart = memory.chart(memory._bars([first, first, other]))
    assert chart.traces[0]["y"] == ["qwen3-0.6b", "qwen3-0.6b, launch 2"]
    assert chart.traces[0]["x"] == [27.52, None]
    assert chart.alt.endswith("qwen3-0.6b, launch 2: KV cache 90\N{NARROW NO-BREAK SPACE}GiB.")


def test_arguments_are_shown_an_option_a_line() -> None:
    """An option with its values, a flag alone, a negative number as a value."""
    words = ("--max-model-len", "8192", "--enforce-eager", "--seed", "-1", "--x=a b")
    assert server.options(words) == (
        "--max-model-len 8192", "--enforce-eager", "--seed -1", "--x=a b",
    )  # fmt: skip


def test_a_recipe_says_what_matters() -> None:
    """The dataset's own options by name, an infinite rate in words, defaults left out."""
    spec = TrafficSpec("burst", "random", dataset_options=(("input_len", 512),), num_prompts=7)
    assert recipe(spec) == {
        "dataset": "random",
        "input_len": "512",
        "num_prompts": "7",
        "seed": "0",
        "request_rate": "all at once",
        "arrival": "poisson",
        "endpoint": "completions",
        "temperature": "0",
        "ignore_eos": "True",
    }


def test_the_tail_of_a_log_is_plain_and_short(tmp_path: Path) -> None:
    """The last 60 lines of a long log, without colours, secrets and half a line."""
    path = tmp_path / "server.log"
    path.write_text(
        "x" * 99 + "\n" * 2
        + "".join(f"line {number} {'y' * 2000}\n" for number in range(200))
        + "\x1b[31mERROR\x1b[0m --api-key hunter2\n"
    )  # fmt: skip
    lines = log.tail(path)
    assert lines[-1] == "ERROR --api-key ***"
    assert lines[-2].startswith("line 199 yyy")
    assert lines[-2].endswith("y…")
    assert len(lines) <= 60
    assert all(line.startswith("line ") for line in lines[:-1])


def test_a_log_may_be_empty(tmp_path: Path) -> None:
    """A server that died at once has said nothing."""
    path = tmp_path / "server.log"
    path.touch()
    assert log.tail(path) == ()
