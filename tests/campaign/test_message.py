"""How a verdict reads in a terminal."""

import pytest

from pytest_llmperf.campaign.message import describe, differences, number, percent
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.verdict import Finding, Status, Verdict
from pytest_llmperf.store.baselines import server_record

SLOWER = Finding(
    "output_tps",
    Status.REGRESSED,
    "9.1 % lower",
    value=929.3,
    reference=1022.26,
    change=-0.0909,
    interval=(-0.104, -0.078),
    noise="assumed",
    unit="tok/s",
    launches=3,
    replays=2,
    nights=1,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1022.26, "tok/s", "1,022 tok/s"), (9.0175, "ms", "9.018 ms"), (79.41, "", "79.41")],
)
def test_numbers_have_sensible_digits(value, unit, text):
    """Four digits, thousands separated."""
    assert number(value, unit) == text


def test_a_loss_has_a_true_minus_sign():
    """So that it is not taken for a dash."""
    assert percent(-0.0909) == "−9.1 %"


def test_a_regression_names_figure_change_interval_evidence_and_places():
    """All that a person needs before opening anything."""
    verdict = Verdict("t::x", "qwen", "chat", (SLOWER,), ("SIMULATED: no real server",))
    text = describe(
        verdict, changed=["arguments + --slowdown 1.10"], places={"log": "/x/server.log"}
    )
    assert text.splitlines() == [
        "REGRESSED (SIMULATED): qwen on chat",
        "  output_tps      1,022 → 929.3 tok/s  −9.1 % [−10.4 % … −7.8 %]  9.1 % lower",
        "  evidence: 3 launches × 2 replays against 1 accepted night, noise assumed",
        "  changed since the baseline: arguments + --slowdown 1.10",
        "  log: /x/server.log",
    ]


def test_a_likely_cause_is_told_after_the_evidence():
    """What to look at first, where the findings say so."""
    length = Finding(
        "acceptance_length", Status.REGRESSED, "less", value=2.1, reference=2.9, change=-0.276
    )
    step = Finding("step_time", Status.PASSED, "as before", value=9.1, reference=9.0, change=0.011)
    lines = describe(Verdict("t::x", "qwen", "chat", (SLOWER, length, step))).splitlines()
    assert lines[3].startswith("  evidence: ")
    assert lines[4].startswith("  likely cause: the drafter is accepted less (acceptance length")


def stored(server, **provenance):
    """Return a baseline of one night on that server."""
    night = Night("2026-11-29", "host", {}, provenance)
    return Baseline(Machine(), "a", "chat", "d", server_record(server), {}, (night,))


def test_what_changed_since_the_baseline_is_told():
    """Added and removed arguments, another model, another version."""
    then = ServerSpec.of("a", "vllm", "old", ["--x", "1", "--y"], {"E": "1"})
    now = ServerSpec.of("a", "vllm", "new", ["--x", "2", "--y"], {"E": "2"})
    assert differences(now, stored(then, engine_version="0.25.1"), "0.26.0") == [
        "model old → new",
        "arguments + --x 2, − --x 1",
        "environment + E=2, − E=1",
        "engine version 0.25.1 → 0.26.0",
    ]


def test_what_did_not_change_is_not_told():
    """The same server on the same version."""
    server = ServerSpec.of("a", "vllm", "m", ["--x"])
    assert differences(server, stored(server, engine_version="0.25.1"), "0.25.1") == []
