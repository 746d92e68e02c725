"""multi_turn: whole conversations, from files and of token ids, and who waits for whom."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pytest_llmperf.datasets import DATASETS
from pytest_llmperf.datasets.multi_turn import multi_turn
from pytest_llmperf.errors import DatasetError, SpecError
from pytest_llmperf.replay.build import build_traffic


@pytest.fixture
def draw(tokenizer):
    """Draw the prompts of a spec, counted in words."""
    return lambda spec: DATASETS["multi_turn"].prompts(spec, tokenizer)


def said(*turns, roles=("human", "gpt")):
    """Make a record in ShareGPT's form, roles in turn."""
    return {
        "conversations": [
            {"from": roles[place % 2], "value": text} for place, text in enumerate(turns)
        ]
    }


def shape(drawn):
    """Return (tokens of the prompt, tokens asked for, who is waited for) of every prompt."""
    return [(p.prompt_tokens, p.output_tokens, p.after) for p in drawn.prompts]


# --- from a file


def test_each_turn_holds_all_that_was_said_before(draw, write):
    """The recorded answers are the history and set the output lengths; the last turn is open."""
    path = write([said("one two", "a b c", "three", "d", "four five six", "e f")])
    drawn = draw(multi_turn("x", path=path, num_prompts=3, endpoint="chat"))
    assert [p.content for p in drawn.prompts] == [
        (("user", "one two"),),
        (("user", "one two"), ("assistant", "a b c"), ("user", "three")),
        (
            ("user", "one two"),
            ("assistant", "a b c"),
            ("user", "three"),
            ("assistant", "d"),
            ("user", "four five six"),
        ),
    ]
    # Words: 2; 2 + 3 + 1 = 6; 6 + 1 + 3 = 10.
    assert shape(drawn) == [(2, 3, None), (6, 1, 0), (10, 2, 1)]
    assert (drawn.notes, drawn.counted_by, drawn.recorded_ns) == ((), "words", None)


def test_completions_get_the_roles_as_text(draw, write):
    """One message a paragraph, open for the answer; a turn's text begins with the one before."""
    record = said("one two", "a b c", "three", "d")
    record["conversations"].insert(0, {"from": "system", "value": "Be brief."})
    drawn = draw(multi_turn("x", path=write([record]), num_prompts=2))
    first, second = (p.content for p in drawn.prompts)
    assert first == "System: Be brief.\n\nUser: one two\n\nAssistant:"
    assert second == (
        "System: Be brief.\n\nUser: one two\n\nAssistant: a b c\n\nUser: three\n\nAssistant:"
    )
    assert second.startswith(first)
    # Words with their labels: 3 + 3 + 1 = 7; 3 + 3 + 4 + 2 + 1 = 13.
    assert shape(drawn) == [(7, 3, None), (13, 1, 0)]


def test_a_system_turn_is_the_first_message_of_every_turn(draw, write):
    """Of OpenAI's form too: ``messages`` with ``role`` and ``content``."""
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "v"},
        {"role": "assistant", "content": "b"},
    ]
    drawn = draw(
        multi_turn("x", path=write([{"messages": messages}]), num_prompts=2, endpoint="chat")
    )
    assert [p.content[0] for p in drawn.prompts] == [("system", "s")] * 2
    assert shape(drawn) == [(2, 1, None), (4, 1, 0)]


def test_conversations_are_taken_whole_until_there_are_enough(draw, write):
    """Each of 3 turns, 7 wanted: 3 + 3 + 1. Each turn waits for the one before it alone."""
    talks = [said(*[f"{label}{turn}" for turn in range(6)]) for label in "abcd"]
    drawn = draw(multi_turn("x", path=write(talks), num_prompts=7, endpoint="chat"))
    assert [p.after for p in drawn.prompts] == [None, 0, 1, None, 3, 4, None]
    labels = [p.content[0][1][0] for p in drawn.prompts]
    assert labels == [labels[0]] * 3 + [labels[3]] * 3 + [labels[6]]
    assert len(set(labels)) == 3


def test_the_seed_sets_the_order(draw, write):
    """The same for one seed, another one for another."""
    path = write([said(f"q{i}", "a", "r", "b") for i in range(30)])
    order = [
        [p.content[0][1] for p in draw(multi_turn("x", path=path, num_prompts=40, seed=seed,
                                                  endpoint="chat")).prompts]
        for seed in (1, 1, 2)
    ]  # fmt: skip
    assert order[0] == order[1] != order[2]


@pytest.mark.parametrize(
    ("turns", "taken"),
    [(2, [2, 2]), ((2, 8), [4, 2]), ((1, 3), [3, 1, 2]), ((3, 8), [4]), (1, [1, 1, 1])],
)
def test_short_conversations_are_passed_over_and_long_ones_cut(draw, write, turns, taken):
    """Of 4, 1 and 2 turns. A number: so many turns of each; two: the fewest and the most."""
    path = write([said(*["w"] * 8), said("w", "w"), said(*["w"] * 4)])
    count = sum(taken)
    drawn = draw(multi_turn("x", path=path, turns=turns, num_prompts=count, endpoint="chat"))
    starts = [i for i, p in enumerate(drawn.prompts) if p.after is None] + [count]
    lengths = [b - a for a, b in pairwise(starts)]
    assert sorted(lengths) == sorted(taken)


def test_a_conversation_ends_before_it_is_too_long(draw, write):
    """Prompts of 2, 6 and 10 words with answers of 3, 1 and 2: 5, 7 and 12 in all."""
    path = write([said("one two", "a b c", "three", "d", "four five six", "e f")])

    def lengths(limit, **options):
        spec = multi_turn("x", path=path, max_total_len=limit, num_prompts=2, turns=(1, 8),
                          endpoint="chat", **options)  # fmt: skip
        return [p.prompt_tokens for p in draw(spec).prompts]

    assert lengths(12) == lengths(7) == [2, 6]
    assert lengths(6) == lengths(5) == [2, 2]  # one turn, and again
    assert lengths(7, output_len=1) == [2, 6]
    with pytest.raises(DatasetError, match=r"none of its 1 conversations has 1 turns of at most 4"):
        lengths(4)


def test_the_output_length_asked_for_replaces_the_answers(draw, write):
    """The history keeps the recorded answers."""
    path = write([said("one two", "a b c", "three", "d")])
    drawn = draw(multi_turn("x", path=path, num_prompts=2, output_len=9, endpoint="chat"))
    assert shape(drawn) == [(2, 9, None), (6, 9, 0)]


@pytest.mark.parametrize(
    "turns",
    [
        [("gpt", "left"), ("human", "q"), ("gpt", "a"), ("human", "r"), ("gpt", "b")],
        [("human", "q"), ("gpt", "a"), ("human", "r"), ("gpt", "b"), ("human", "open")],
        [("human", "q"), ("gpt", "a"), ("human", "r"), ("gpt", "b"), ("gpt", "c"), ("human", "d")],
        [("human", "q"), ("gpt", "a"), ("human", "r"), ("gpt", "b"), ("human", " "), ("gpt", "c")],
        [("human", "q"), ("gpt", "a"), ("human", "r"), ("gpt", "b"), ("human", "c"), ("gpt", None)],
        [("User", "q"), ("chatgpt", "a"), ("human", "r"), ("bard", "b"), ("tool", "x")],
    ],
    ids=["begins in the middle", "open end", "two answers", "empty", "no text", "other roles"],
)
def test_a_conversation_is_what_user_and_answerer_say_in_turn(draw, write, turns):
    """What is before the first question is left out; where they do not alternate it ends."""
    record = {"conversations": [{"from": role, "value": text} for role, text in turns]}
    drawn = draw(multi_turn("x", path=write([record]), num_prompts=2, endpoint="chat"))
    assert drawn.prompts[1].content == (("user", "q"), ("assistant", "a"), ("user", "r"))


def test_what_a_reader_must_know_is_in_the_notes(draw, write):
    """A file that is cut off, conversations with images, and turns that come again."""
    path = write([said("q", "a", "r", "b"), said("s", "c", "t", "d") | {"image": "x.png"}, 1, 2],
                 keep=-2)  # fmt: skip
    drawn = draw(multi_turn("x", path=path, num_prompts=5, endpoint="chat"))
    assert shape(drawn) == [(1, 1, None), (3, 1, 0), (1, 1, None), (3, 1, 2), (1, 1, None)]
    assert drawn.notes == (
        "talk.json is cut off after 3 whole conversations; what follows is left out",
        "1 conversations of talk.json are not text alone and were left out",
        "only 1 conversations of talk.json are usable: 3 of the 5 turns repeat them",
    )


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([], "is not a JSON list of conversations"),
        ([{"conversations": []}, said("q")], "none of the 2 records of"),
        ([said("q", "a")], "none of its 1 conversations has 2 turns"),
    ],
)
def test_a_file_of_no_use_is_named_with_the_reason(draw, write, records, complaint):
    """No list, no answered turn, none long enough."""
    path = write(records)
    with pytest.raises(DatasetError) as caught:
        draw(multi_turn("x", path=path))
    assert path in str(caught.value)
    assert complaint in str(caught.value)


# --- of token ids


def test_turns_of_token_ids_grow_by_input_and_answer(draw):
    """System 5, then 10 in and 3 out a turn: 15, 28 and 41 ids; each begins with the last one."""
    drawn = draw(multi_turn("x", turns=3, input_len=10, output_len=3, system_len=5, num_prompts=6))
    assert shape(drawn) == [
        (15, 3, None), (28, 3, 0), (41, 3, 1), (15, 3, None), (28, 3, 3), (41, 3, 4),
    ]  # fmt: skip
    contents = [p.content for p in drawn.prompts]
    assert [len(content) for content in contents] == [15, 28, 41, 15, 28, 41]
    assert contents[2][:28] == contents[1]
    assert contents[1][:15] == contents[0]
    assert contents[0][:5] == contents[3][:5]
    assert contents[0][5:15] != contents[3][5:15]
    assert {1_000 <= token < 31_000 for token in contents[5]} == {True}
    assert drawn.counted_by == "token ids"


def test_the_number_of_turns_is_drawn_evenly(draw):
    """From 2 to 4, all of them, over 300 turns; the last conversation may be cut."""
    drawn = draw(multi_turn("x", turns=(2, 4), input_len=1, output_len=1, num_prompts=300, seed=1))
    starts = [i for i, p in enumerate(drawn.prompts) if p.after is None]
    lengths = [b - a for a, b in pairwise(starts)]
    assert set(lengths) == {2, 3, 4}
    assert max(map(lengths.count, (2, 3, 4))) < 2 * min(map(lengths.count, (2, 3, 4)))


def test_users_think_for_a_constant_time(draw):
    """Before every later turn, never before a first one."""
    drawn = draw(multi_turn("x", turns=2, input_len=1, output_len=1, num_prompts=4, think_s=1.5))
    assert [p.think_ns for p in drawn.prompts] == [0, 1_500_000_000, 0, 1_500_000_000]


def test_users_think_for_an_exponential_time(draw):
    """Mean 2 s, half of them below 2 ln 2 = 1.39 s; another seed thinks otherwise."""
    thoughts = [
        [
            p.think_ns / 1e9
            for p in draw(multi_turn("x", turns=11, input_len=1, output_len=1, num_prompts=1100,
                                     think_s=2.0, think="exponential", seed=seed)).prompts
            if p.after is not None
        ]
        for seed in (1, 1, 2)
    ]  # fmt: skip
    assert thoughts[0] == thoughts[1] != thoughts[2]
    assert len(thoughts[0]) == 1000
    assert 1.8 < sum(thoughts[0]) / 1000 < 2.2
    assert 1.25 < sorted(thoughts[0])[500] < 1.53


# --- as traffic


def test_the_arrival_process_schedules_conversations(tokenizer):
    """3 conversations of 2 turns at 2 a second: 0.5, 1 and 1.5 s; later turns have no time."""
    spec = multi_turn("x", turns=2, input_len=2, output_len=2, num_prompts=6, request_rate=2,
                      arrival="constant")  # fmt: skip
    traffic = build_traffic(spec, tokenizer)
    assert [(r.due_ns, r.prompt.after) for r in traffic.requests] == [
        (500_000_000, None), (0, 0), (1_000_000_000, None), (0, 2), (1_500_000_000, None), (0, 4),
    ]  # fmt: skip


def test_the_digest_is_of_whole_conversations(write, tokenizer):
    """Pinned; another think time, or who waits for whom, is other traffic."""
    path = write([said(*[f"{label} {turn}" for turn in range(6)]) for label in "abcd"])

    def digest(**options):
        spec = multi_turn("x", path=path, num_prompts=9, endpoint="chat", **options)
        return build_traffic(spec, tokenizer).digest

    assert digest() == "df823a99ad847f0c"
    assert digest(think_s=1.0) == "53e8e12e30f4a0a9"
    ids = multi_turn("x", turns=(1, 3), input_len=4, output_len=2, system_len=3, num_prompts=9,
                     think_s=0.5, think="exponential", request_rate=3)  # fmt: skip
    assert build_traffic(ids, tokenizer).digest == "e9e74ef89d23c809"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"turns": 0}, "turns is 0, neither a number of at least 1 nor (fewest, most)"),
        ({"turns": (3, 2)}, "turns is (3, 2)"),
        ({"turns": (1, 2, 3)}, "turns is (1, 2, 3)"),
        ({"turns": "2"}, "turns is '2'"),
        ({"output_len": 0}, "output_len is 0, at least 1 is needed"),
        ({"max_total_len": 0}, "max_total_len is 0, at least 1 is needed"),
        ({"think_s": -1}, "think_s is -1, not a number of seconds"),
        ({"think_s": float("inf")}, "think_s is inf"),
        ({"think": "long"}, "think is 'long', known: constant, exponential"),
        ({"path": ""}, "path is '', not the name of a file"),
        ({"system_len": 5}, "system_len is for conversations of token ids; set input_len"),
        ({"input_len": 5}, "output_len is None, at least 1 is needed"),
        ({"input_len": 0, "output_len": 5}, "input_len is 0, at least 1 is needed"),
        ({"input_len": 5, "output_len": 5, "path": "x"}, "path and max_total_len are for"),
        ({"input_len": 5, "output_len": 5, "endpoint": "chat"}, "its prompts are token ids"),
        ({"num_turns": 5}, "unknown option 'num_turns'"),
    ],
)
def test_values_that_cannot_be_are_refused_at_once(options, complaint):
    """When the suite is collected, not when the file is read."""
    with pytest.raises(SpecError) as caught:
        multi_turn("x", **options)
    assert "traffic 'x'" in str(caught.value)
    assert complaint in str(caught.value)
