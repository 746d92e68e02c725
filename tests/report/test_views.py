"""What belongs together on the page: a verdict and the launches it was reached on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.report.context import Context
from pytest_llmperf.store.runs import load_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_verdicts_come_worst_first(night: Path) -> None:
    """In the order in which a morning reader wants to hear of them."""
    context = Context(load_run(night), night)
    assert [judged.status.value for judged in context.judged] == [
        "REGRESSED", "INVALID", "NO_BASELINE", "IMPROVED", "PASSED", "PASSED",
    ]  # fmt: skip


def test_what_was_measured_comes_in_the_same_order(night: Path) -> None:
    """So charts of what regressed are the first charts."""
    context = Context(load_run(night), night)
    assert [measured.title for measured in context.measured] == [
        "qwen3-14b-awq / chat",
        "qwen3-0.6b / chat",
        "qwen3-14b-awq / prefix",
        "qwen3-14b / prefix",
        "qwen3-14b / chat",
        "qwen3-14b-awq-vs-qwen3-14b / prefix",
    ]


def test_a_comparison_belongs_to_the_pairs_campaign(night: Path) -> None:
    """The same server and traffic, judged alone and against another, have launches of each."""
    context = Context(load_run(night), night)
    campaigns = {
        judged.row: judged.measured.campaign
        for judged in context.judged
        if judged.measured and judged.verdict.traffic == "prefix"
    }
    assert campaigns == {
        "qwen3-14b": "qwen3-14b",
        "qwen3-14b-awq": "qwen3-14b-awq",
        "qwen3-14b-awq against qwen3-14b": "qwen3-14b-awq-vs-qwen3-14b",
    }


def test_the_judged_server_of_a_pair_is_first(night: Path) -> None:
    """It has the first colour in every chart."""
    context = Context(load_run(night), night)
    assert context.servers_of(context.measured[-1]) == ("qwen3-14b-awq", "qwen3-14b")


def test_the_decisive_finding_is_the_largest_of_those_that_decided(night: Path) -> None:
    """itl.mean moved by 6.9 % and output_tps by 6.4 %; ttft.p99 did not decide."""
    judged = Context(load_run(night), night).judged[0]
    assert judged.decisive is not None
    assert judged.decisive.figure == "itl.mean"
    assert [finding.figure for finding in judged.findings] == [
        "output_tps", "itl.mean", "ttft.p99", "itl.median",
    ]  # fmt: skip


def test_a_verdict_without_launches_is_shown_all_the_same(make_run: Callable) -> None:
    """A server that never got ready has a verdict and nothing that was measured."""
    run = make_run()
    finding = Finding("measurement", Status.INVALID, "the server died")
    run.folder.write_verdict(Verdict("t", "a", "chat", (finding,)), "")
    context = Context(load_run(run.folder.path), run.folder.path)
    assert (context.judged[0].measured, context.measured) == (None, ())


def test_names_that_look_alike_are_kept_apart(make_run: Callable, night: Path) -> None:
    """Campaign a-b with traffic c, and campaign a with traffic b-c, have ids of their own."""
    run = make_run()
    spec = load_run(night).launches[0].spec
    for campaign, name in (("a-b", "c"), ("a", "b-c"), ("a", "b.c")):
        traffic = Traffic(TrafficSpec(name, "random"), (Request(0, 0, Prompt("x", 5, 9)),))
        run.measure(campaign, replace(spec, name="a"), [traffic], launches=1, replays=1)
    context = Context(load_run(run.folder.path), run.folder.path)
    titles = ["a / b-c", "a / b.c", "a-b / c"]
    assert [measured.title for measured in context.measured] == titles
    assert len({measured.slug for measured in context.measured}) == 3


def test_a_server_replayed_alone_and_in_a_pair_is_judged_on_its_own(make_run, night) -> None:
    """A pair that was cut short may hold the same one server; the verdict is not about it."""
    run = make_run()
    spec = replace(load_run(night).launches[0].spec, name="base")
    traffic = Traffic(TrafficSpec("chat", "random"), (Request(0, 0, Prompt("x", 5, 9)),))
    for campaign in ("awq-vs-base", "base"):
        run.measure(campaign, spec, [traffic], launches=1, replays=1)
    run.folder.write_verdict(Verdict("t", "base", "chat", ()), "")
    context = Context(load_run(run.folder.path), run.folder.path)
    assert context.judged[0].measured is not None
    assert context.judged[0].measured.campaign == "base"
    assert [measured.campaign for measured in context.unjudged] == ["awq-vs-base"]
