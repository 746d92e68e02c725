"""What a verdict says of answers that changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmperf.campaign.answers import answer_notes, answers_for_night
from pytest_llmperf.campaign.results import CampaignResult, LaunchResult, ReplayResult
from pytest_llmperf.model.answers import Answer, Answers
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec

A = ServerSpec.of("a", "vllm", "m")
B = ServerSpec.of("b", "vllm", "m")
BLUE, SKY, RED = Answer(" blue", (5, 6)), Answer(" The sky", (7, 8)), Answer(" red", (5, 9))
REPLAY = ReplayResult({}, None, offered_limited=False)


def launched(server, *launches):
    """Return launches of ``server`` that gave those answers to traffic ``chat``."""
    return tuple(
        LaunchResult(
            server,
            number,
            LaunchFacts(),
            {},
            {"chat": (REPLAY,)},
            Path("server.log"),
            {} if given is None else {"chat": given},
        )
        for number, given in enumerate(launches, 1)
    )


def result(*launches):
    """Return a campaign of server ``a``, each launch giving those answers."""
    return CampaignResult(launched(A, *launches), {})


def night(date, *launches):
    """Return an accepted night on which launches gave those answers."""
    return Night(date, "host", {}, answers_for_night(result(*launches), A, "chat"))


def baseline(*nights):
    """Return a baseline of those nights."""
    return Baseline(Machine(), "a", "chat", "d", {}, {}, nights)


def notes(tonight, *nights):
    """Return what is said of ``a`` against those nights."""
    return answer_notes(tonight, (A,), "chat", baseline(*nights) if nights else None)


SOUND = Answers((BLUE, SKY))
WHEN = "than on the accepted night of 2026-11-30 "


def test_the_same_answers_need_no_word():
    """Among launches and against the accepted night."""
    assert notes(result(SOUND, SOUND), night("2026-11-30", SOUND, SOUND)) == ()


def test_other_answers_than_accepted_are_counted_and_shown():
    """One of two prompts is answered otherwise; the first such is quoted as it is now."""
    assert notes(result(Answers((RED, SKY))), night("2026-11-30", SOUND)) == (
        "answers: 1 of 2 probes answer otherwise " + WHEN + "(prompt 1: now 'red')",
    )


def test_the_last_night_that_knows_its_answers_is_compared_with():
    """Older nights are not, nor nights accepted before answers were asked for."""
    nights = (
        night("2026-11-28", SOUND),
        night("2026-11-29", Answers((RED, SKY))),
        night("2026-11-30"),
    )
    assert notes(result(Answers((RED, SKY))), *nights) == ()
    assert notes(result(SOUND), night("2026-11-30")) == ()


def test_launches_that_differ_among_themselves_are_said():
    """One answer that both nights gave is no difference, however many others there are."""
    mixed = result(SOUND, Answers((RED, SKY)))
    (said,) = notes(mixed)
    assert said == (
        "answers: a's launches differ among themselves in 1 of 2 probes, so that a difference "
        "to others means little"
    )
    assert notes(mixed, night("2026-11-30", SOUND)) == (said,)
    assert notes(result(SOUND), night("2026-11-30", SOUND, Answers((RED, SKY)))) == ()


def test_a_pair_is_compared_with_each_other():
    """An upgrade beside its reference, with no stored night at all."""
    both = CampaignResult(launched(A, SOUND) + launched(B, Answers((BLUE, RED))), {})
    assert answer_notes(both, (A, B), "chat") == (
        "answers: 1 of 2 probes answer otherwise than a does (prompt 2: 'The sky' → 'red')",
    )


def test_token_ids_and_text_are_not_compared():
    """A server that began to give token ids did not change its answers."""
    text = Answers((Answer(" blue"), Answer(" The sky")))
    (said,) = notes(result(SOUND), night("2026-11-30", text))
    assert said == (
        "answers: cannot tell whether they are as on the accepted night of 2026-11-30: one gave "
        "token ids, one text"
    )


def test_answers_that_could_not_be_had_are_a_note():
    """What there is, is compared."""
    ended = Answers((RED,), error="POST /v1/completions answered 500: no")
    assert notes(result(ended), night("2026-11-30", SOUND)) == (
        f"answers: a gave not all that it was asked for in 1 launch: {ended.error}",
        "answers: 1 of 1 probes answer otherwise " + WHEN + "(prompt 1: now 'red')",
    )


@pytest.mark.parametrize("given", [None, Answers()])
def test_no_answers_are_nothing_to_say(given):
    """Nothing was asked, or the traffic has no prompt to ask."""
    assert notes(result(given), night("2026-11-30", SOUND)) == ()
    assert answers_for_night(result(given), A, "chat") == {}


def test_a_file_that_someone_edited_says_nothing_of_answers():
    """Provenance is free text; what is no list of lines is passed over."""
    edited = Night("2026-11-30", "host", {}, {"answers": 7})
    assert notes(result(SOUND), edited) == ()


def test_random_weights_differ_and_nobody_is_told():
    """Noise on either night; it is marked where it is stored."""
    noise = Answers((RED, BLUE), random_weights=True)
    other = Answers((SKY, SKY), random_weights=True)
    assert notes(result(noise, other), night("2026-11-30", SOUND)) == ()
    assert notes(result(SOUND), night("2026-11-30", noise)) == ()
    assert answers_for_night(result(noise), A, "chat") == {
        "answers": [RED.digest, BLUE.digest],
        "answers_of_random_weights": True,
    }


def test_a_night_keeps_a_line_a_prompt():
    """Each distinct digest once, and nothing of the text: a baseline lies in git."""
    assert answers_for_night(result(SOUND, Answers((RED, SKY))), A, "chat") == {
        "answers": [f"{BLUE.digest},{RED.digest}", SKY.digest]
    }
