"""Sense, nonsense and sameness of answers."""

from __future__ import annotations

import pytest

from pytest_llmperf.model.answers import Answer, Answers

SOUND = Answer(" of the way the human eye", (282, 260, 970, 260, 1205, 3323, 41993, 357))
STUCK = Answer("!" * 16, (0,) * 16)
SILENT = Answer("", (2,) * 16)
HIDDEN = Answer("", tuple(range(16)))
ENDED = Answer("", (2,), "stop")


def test_equal_answers_have_equal_digests():
    """Over token ids where there are some: the text may hide special tokens."""
    assert SOUND.digest == Answer("another text", SOUND.token_ids).digest
    assert SOUND.digest == Answer(SOUND.text, SOUND.token_ids, "length").digest
    assert SOUND.digest != Answer(SOUND.text, (282, 260)).digest
    assert SOUND.digest == "ids:53a243bbb4d2d42c"
    assert (SOUND.counted_by, Answer("x").counted_by) == ("token ids", "text")


def test_a_text_has_a_digest_of_its_own_kind():
    """Token ids and text are never taken for the same, or for different, answers."""
    assert Answer("blue").digest == "text:3aae004f448787fc"
    assert Answer("blue").digest != Answer("Blue").digest


def test_an_excerpt_is_one_printable_line():
    """Line breaks, controls and long answers do not break a message."""
    assert Answer("a\n b\t\x1b[31mc").excerpt == "a b [31mc"
    assert Answer("x" * 41).excerpt == "x" * 39 + "…"
    assert Answer("x" * 40).excerpt == "x" * 40


@pytest.mark.parametrize(
    ("answer", "nonsense"),
    [
        (SOUND, None),
        (STUCK, "one token over and over"),
        (Answer("yes", (9,)), None),  # a short answer is no repetition
        (Answer("ha" * 7, (9,) * 7), None),
        (Answer("0101010101010101", (5, 6) * 8), None),  # a sound small model's, on noise
        (Answer("the the the the the the the the"), "one token over and over"),
        (Answer("!!!!!!!!"), "one token over and over"),
        (Answer("the the the the the the the cat"), None),
        (SILENT, "no text"),
        (Answer("", (2,) * 7), None),  # too few to say
        (Answer("\n" * 16, (198,) * 16), "one token over and over"),  # blanks are text
        (Answer("!" * 16, (0,) * 16, "length"), "one token over and over"),
        (HIDDEN, None),  # sixteen different tokens: the text is hidden
        (Answer("", HIDDEN.token_ids, "length"), None),
        (Answer("", ()), "no text"),
        (Answer(""), "no text"),
        (Answer(" \n "), "no text"),
        (Answer("", finish_reason="length"), "no text"),
        (ENDED, None),  # the traffic lets it end
        (Answer("", finish_reason="stop"), None),
        (Answer("ha" * 9, (9,) * 9, "stop"), None),
        (Answer("", finish_reason="tool_calls"), None),
    ],
)
def test_what_no_sound_model_answers(answer, nonsense):
    """By token ids, and by text where those are not given."""
    assert answer.nonsense == nonsense


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ((STUCK,) * 4, True),
        ((STUCK, STUCK, STUCK, SOUND), True),
        ((STUCK, STUCK, STUCK, ENDED), True),
        ((SILENT,) * 4, True),  # of several real questions, some would be answered
        ((Answer(""),) * 2, True),
        ((SILENT, SILENT, STUCK, STUCK), True),  # none of them is sound
        ((SILENT, SILENT, SILENT, SOUND), False),  # made to go on after its end: EOS again
        ((Answer(""), Answer(""), Answer("yes")), False),
        ((STUCK, SILENT, STUCK, SOUND), False),
        ((SILENT,), False),
        ((HIDDEN,) * 4, False),
        ((ENDED,) * 4, False),
        ((SILENT, SILENT, SILENT, ENDED), False),
        ((STUCK, STUCK, SOUND, SOUND), False),  # half is not most
        ((STUCK, SOUND, SOUND, SOUND), False),  # 2 % of answers to random token ids
        ((STUCK,), False),
        ((), False),
    ],
)
def test_most_of_the_answers_make_a_broken_engine(answers, found):
    """One bad answer may be the prompt's fault, three of four not; no text only if all have none."""
    assert (Answers(answers).nonsense is not None) is found


def test_the_reason_counts_and_quotes():
    """What came, how often, and what to do where that was meant."""
    assert Answers((SILENT, STUCK, STUCK)).nonsense == (
        "3 of 3 answers are no text or one token over and over: the engine is broken, however "
        "fast. Where weights are random on purpose, say so with --load-format dummy"
    )
    assert "4 of 4 answers are one token over and over, such as '!!!!!!!!!!!!!!!!'" in str(
        Answers((STUCK,) * 4).nonsense
    )


def test_random_weights_are_not_judged():
    """They answer noise, and are measured for their speed alone."""
    assert Answers((STUCK,) * 4, random_weights=True).nonsense is None


def test_a_probe_that_ended_early_is_judged_by_what_it_has():
    """Two answers of one token, and then none: broken."""
    assert Answers((STUCK, STUCK), error="HTTP 500").nonsense is not None
    assert Answers(error="HTTP 500").nonsense is None
