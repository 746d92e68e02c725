"""trace: the three public formats and files of one's own, cut, scaled and sent as recorded."""

from __future__ import annotations

import json

import pytest

from pytest_llmperf.arrivals import ARRIVALS
from pytest_llmperf.datasets import DATASETS
from pytest_llmperf.datasets.trace import trace
from pytest_llmperf.errors import DatasetError, SpecError

MOONCAKE = """\
{"timestamp": 0, "input_length": 1500, "output_length": 52, "hash_ids": [46, 47, 48]}
{"timestamp": 3000, "input_length": 1100, "output_length": 26, "hash_ids": [46, 47, 49]}
{"timestamp": 5999, "input_length": 700, "output_length": 1, "hash_ids": [50, 47]}
"""
BURSTGPT = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,276,693,Conversation log
120,GPT-4,300,0,300,API log
121,ChatGPT,0,0,0,API log
130,GPT-4,80,20,100,API log
"""
BURSTGPT_3 = """\
Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
19440110.0,1722ac82-0a46-4bf0-aa08-89794e7a2b3f,43,GPT-4,906,446,1352,Conversation log
19440161.0,,2,ChatGPT,36,29,65,API log
"""
AZURE_2023 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
"""
AZURE_2024 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01+00:00,2399,6
"""


@pytest.fixture
def draw(tokenizer):
    """Draw the prompts of a spec."""
    return lambda spec: DATASETS["trace"].prompts(spec, tokenizer)


@pytest.fixture
def file(tmp_path):
    """Write a file and return its path."""

    def make(content, name="trace.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return make


def csv(*rows):
    """A file of one's own: t, in, out."""
    return "\n".join(["t,in,out", *(",".join(map(str, row)) for row in rows)])


OWN = {"columns": {"timestamp": "t", "input_tokens": "in", "output_tokens": "out"}}


def lengths(drawn):
    return [(len(p.content), p.output_tokens) for p in drawn.prompts]


@pytest.mark.parametrize(
    ("content", "kind", "expected", "times"),
    [
        (MOONCAKE, "mooncake", [(1500, 52), (1100, 26), (700, 1)], (0, 3_000_000_000, 5_999_000_000)),
        (BURSTGPT, "burstgpt", [(472, 18), (1087, 230), (417, 276), (80, 20)],
         (0, 40_000_000_000, 113_000_000_000, 125_000_000_000)),
        (BURSTGPT_3, "burstgpt", [(906, 446), (36, 29)], (0, 51_000_000_000)),
        (AZURE_2023, "azure", [(4808, 10), (3180, 8)], (0, 52_000_000)),
        (AZURE_2024, "azure", [(2162, 5), (2399, 6)], (0, 990_070_000)),
    ],
)  # fmt: skip
def test_the_public_formats_are_known(draw, file, content, kind, expected, times):
    """Lengths and times, the first at 0, whatever the file is called."""
    spec = trace("x", path=file(content, "download"), format=kind, num_prompts=len(expected))
    drawn = draw(spec)
    assert lengths(drawn) == expected
    assert drawn.recorded_ns == times
    assert drawn.counted_by == "token ids"
    assert [p.prompt_tokens for p in drawn.prompts] == [tokens for tokens, _ in expected]
    assert ARRIVALS[spec.arrival].due_ns(spec, drawn.recorded_ns) == list(times)


def test_equal_hash_ids_share_their_block(draw, file):
    """Two prompts agree in blocks 46 and 47, 1,024 tokens; the third has only 47, at its end."""
    first, second, third = (
        p.content
        for p in draw(trace("x", path=file(MOONCAKE), format="mooncake", num_prompts=3)).prompts
    )
    assert first[:1024] == second[:1024]
    assert first[1024:1100] != second[1024:1100]
    assert third[:512] != first[:512]
    assert third[512:] == first[512:700]


def test_a_block_is_the_same_in_another_file_and_not_for_another_seed(draw, file):
    """What a block holds depends on its id and the seed alone."""

    def blocks(ids, seed=0):
        row = {"timestamp": 0, "input_length": 8, "output_length": 1, "hash_ids": ids}
        path = file(json.dumps(row))
        spec = trace("x", path=path, format="mooncake", num_prompts=1, seed=seed, block_tokens=4)
        content = draw(spec).prompts[0].content
        return content[:4], content[4:]

    assert blocks([1, 2]) == blocks([2, 1])[::-1]
    assert blocks([1, 2]) != blocks([1, 2], seed=1)
    assert blocks(["1", "a"])[0] == blocks([1, 2])[0]


def test_prompts_without_hash_ids_share_nothing(draw, file):
    """Drawn one after the other, from the range set."""
    path = file(csv((0, 8, 1), (1, 8, 1)))
    drawn = draw(trace("x", path=path, num_prompts=2, token_ids=(5, 5000), **OWN))
    first, second = (p.content for p in drawn.prompts)
    assert first != second
    assert all(5 <= token < 5000 for token in first + second)


def test_columns_of_ones_own(draw, file):
    """CSV by default, JSON lines by the file's ending; with a format, what differs from it."""
    path = file(csv((10, 3, 1), (12.5, 4, 2)))
    drawn = draw(trace("x", path=path, num_prompts=2, unit_s=0.5, **OWN))
    assert (lengths(drawn), drawn.recorded_ns) == ([(3, 1), (4, 2)], (0, 1_250_000_000))
    path = file('{"t": 1, "in": 3, "out": 1}\n{"t": 1.25, "in": 4, "out": 2}', "own.JSONL")
    drawn = draw(trace("x", path=path, num_prompts=2, **OWN))
    assert (lengths(drawn), drawn.recorded_ns) == ([(3, 1), (4, 2)], (0, 250_000_000))
    path = file(MOONCAKE.replace("timestamp", "arrived"))
    spec = trace("x", path=path, format="mooncake", columns={"timestamp": "arrived"}, num_prompts=3)
    assert draw(spec).recorded_ns[1] == 3_000_000_000


def test_times_are_exact(draw, file):
    """A time of 225 days in seconds has more digits than a float keeps nanoseconds of."""
    path = file(csv(("19440110.000000001", 1, 1), ("19440110.000000003", 1, 1)))
    assert draw(trace("x", path=path, num_prompts=2, **OWN)).recorded_ns == (0, 2)


@pytest.mark.parametrize(
    ("options", "expected", "times_s"),
    [
        ({}, [10, 11, 12], [0, 1, 2]),
        ({"speed": 4}, [10, 11, 12], [0, 0.25, 0.5]),
        ({"speed": 0.5}, [10, 11, 12], [0, 2, 4]),
        ({"start_s": 2}, [12, 13, 14], [0, 1, 2]),
        ({"start_s": 1.5, "duration_s": 3, "speed": 2}, [12, 13, 14], [0, 0.5, 1]),
    ],
)
def test_a_part_of_it_at_another_speed(draw, file, options, expected, times_s):
    """start_s and duration_s count from the first row in recorded time; the first is sent at 0."""
    path = file(csv(*((100 + i, 10 + i, 1) for i in range(6))))
    drawn = draw(trace("x", path=path, num_prompts=3, **OWN, **options))
    assert [len(p.content) for p in drawn.prompts] == expected
    assert [time / 1e9 for time in drawn.recorded_ns] == times_s
    assert drawn.notes == ()


def test_a_window_says_how_much_it_holds(draw, file):
    """4 of the 6 rows are within 4 s of the first; 2 are sent."""
    path = file(csv(*((i, 9, 1) for i in range(6))))
    drawn = draw(trace("x", path=path, num_prompts=2, duration_s=4, **OWN))
    assert drawn.notes == ("trace.csv has 4 requests between 0 and 4 s: the first 2 are sent",)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, "has 4 requests in all that can be sent"),
        ({"start_s": 100}, "has 2 requests from 100 s on that can be sent"),
        ({"duration_s": 60}, "has 2 requests between 0 and 60 s that can be sent"),
        ({"where": {"Model": "GPT-4"}}, "has 2 requests in all that can be sent"),
        ({"start_s": 1e6}, "has 0 requests from 1e+06 s on that can be sent"),
    ],
)
def test_fewer_requests_than_asked_are_an_error_with_both_numbers(draw, file, options, found):
    """A trace is never repeated: its times would not be."""
    path = file(BURSTGPT)
    with pytest.raises(DatasetError) as caught:
        draw(trace("x", path=path, format="burstgpt", num_prompts=5, **options))
    assert str(caught.value).startswith(f"trace: {path} {found}, num_prompts is 5: ask for no more")


def test_failed_requests_are_left_out_and_said(draw, file):
    """Rows with 0 tokens, of those read on the way to what was asked for."""
    drawn = draw(trace("x", path=file(BURSTGPT), format="burstgpt", num_prompts=4))
    assert drawn.notes == ("2 requests of trace.csv have no input or no output (failed): left out",)
    assert draw(trace("x", path=file(BURSTGPT), format="burstgpt", num_prompts=3)).notes == ()


def test_rows_can_be_chosen_by_a_column(draw, file):
    """vLLM's burstgpt takes the rows of GPT-4 that did not fail: where says it."""
    spec = trace(
        "x", path=file(BURSTGPT), format="burstgpt", num_prompts=2, where={"Model": "GPT-4"}
    )
    drawn = draw(spec)
    assert lengths(drawn) == [(417, 276), (80, 20)]
    assert drawn.recorded_ns == (0, 12_000_000_000)


@pytest.mark.parametrize(
    ("options", "expected", "note"),
    [
        (
            {"max_input_len": 600},
            [(600, 52), (600, 26), (600, 1)],
            "3 requests of m have input of more than 600 tokens: cut down to that",
        ),
        (
            {"max_input_len": 1100, "max_output_len": 30},
            [(1100, 30), (1100, 26), (700, 1)],
            (
                "1 requests of m have input of more than 1,100 tokens or output of more than 30 "
                "tokens: cut down to that"
            ),
        ),
        (
            {"max_output_len": 30, "too_long": "skip"},
            [(1100, 26), (700, 1)],
            "1 requests of m have output of more than 30 tokens: left out",
        ),
    ],
)
def test_what_is_too_long_is_cut_or_left_out_and_said(draw, file, options, expected, note):
    """Cut prompts still share what they shared."""
    path = file(MOONCAKE, "m")
    drawn = draw(trace("x", path=path, format="mooncake", num_prompts=len(expected), **options))
    assert lengths(drawn) == expected
    assert drawn.notes == (note,)
    if options.get("too_long") != "skip":
        assert drawn.prompts[0].content[:600] == drawn.prompts[1].content[:600]


def test_rows_out_of_order_are_sorted_and_said(draw, file):
    """Times never go back: 1, 3, 2, 2 becomes 1, 2, 2, 3, equal ones in the file's order."""
    path = file(csv((1, 10, 1), (3, 11, 1), (2, 12, 1), (2, 13, 1), (0, 14, 1)))
    drawn = draw(trace("x", path=path, num_prompts=4, **OWN))
    assert [len(p.content) for p in drawn.prompts] == [10, 12, 13, 11]
    assert drawn.recorded_ns == (0, 1_000_000_000, 1_000_000_000, 2_000_000_000)
    assert drawn.notes == ("1 requests of trace.csv are out of order: sorted by their times",)
    drawn = draw(trace("x", path=path, num_prompts=5, **OWN))  # one before the file's first
    assert [len(p.content) for p in drawn.prompts] == [14, 10, 12, 13, 11]
    assert drawn.recorded_ns[:2] == (0, 1_000_000_000)


def test_a_rate_can_take_the_place_of_the_recorded_times(file):
    """Another arrival process than the default, with the trace's lengths."""
    spec = trace("x", path=file(BURSTGPT), format="burstgpt", arrival="poisson", request_rate=5)
    assert (spec.arrival, spec.request_rate) == ("poisson", 5)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("soon,1,1", "has t 'soon', neither a number nor a date"),
        ("nan,1,1", "has t 'nan', neither a number nor a date"),
        ("1,-1,1", "has in '-1', not a number of tokens"),
        ("1,1.5,1", "has in '1.5', not a number of tokens"),
        ("1,1,", "has out '', not a number of tokens"),
        ("1,1", "has 2 fields, the header has 3"),
        ('1,1,"1', "is not CSV: unexpected end of data"),
        (b"1,1,\xff", "is not UTF-8 (byte 5)"),
    ],
)
def test_a_row_of_no_use_is_named(draw, file, row, complaint):
    """With the file, the line's number as an editor shows it, and what is wrong."""
    row = row if isinstance(row, bytes) else row.encode()
    path = file(csv((0, 1, 1)).encode() + b"\r\n\r\n" + row)
    with pytest.raises(DatasetError) as caught:
        draw(trace("x", path=path, num_prompts=2, **OWN))
    assert str(caught.value) == f"trace: {path}, line 4 {complaint}"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "is not JSON: "),
        ('{"timestamp": 0}', "has no 'input_length', only timestamp"),
        (
            '{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1]}',
            (
                "has 1 hash_ids for 600 input tokens, which are 2 blocks of 512; say how many "
                "tokens a block has: block_tokens="
            ),
        ),
        (
            '{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": {"a": 1}}',
            "has hash_ids that are no list of ids",
        ),
        (
            '{"timestamp": true, "input_length": 600, "output_length": 1}',
            "has timestamp True, neither a number nor a date",
        ),
    ],
)
def test_an_object_of_no_use_is_named(draw, file, line, complaint):
    """The same for JSON lines; a block length that does not fit would change what is shared."""
    path = file(line)
    with pytest.raises(DatasetError) as caught:
        draw(trace("x", path=path, format="mooncake", num_prompts=1))
    assert str(caught.value).startswith(f"trace: {path}, line 1 {complaint}")


def test_a_file_of_another_format_says_which_columns_it_has(draw, file):
    """BurstGPT's file read as Azure's."""
    path = file(BURSTGPT)
    with pytest.raises(DatasetError) as caught:
        draw(trace("x", path=path, format="azure"))
    assert str(caught.value) == (
        f"trace: {path}, line 1 is a header without the column 'TIMESTAMP': Timestamp, Model, "
        "Request tokens, Response tokens, Total tokens, Log Type"
    )


def test_an_empty_file_and_no_file_are_named(draw, file):
    """The path, and what is wrong with it."""
    path = file("")
    with pytest.raises(DatasetError, match=f"{path} has 0 requests in all"):
        draw(trace("x", path=path, format="azure"))
    with pytest.raises(DatasetError, match=r"trace: cannot read absent\.csv: No such file"):
        draw(trace("x", path="absent.csv", format="azure"))


GOOD = {"path": "x.csv", "format": "azure"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (GOOD | {"path": ""}, "path is '', not the name of a file"),
        (GOOD | {"format": "azur"}, "format is 'azur', known: mooncake, burstgpt, azure"),
        ({"path": "x.csv"}, "columns does not say which is 'timestamp'; say it, or set format to "),
        (GOOD | {"columns": {"when": "t"}}, "columns has 'when', known: timestamp, input_tokens, "),
        (GOOD | {"columns": ["t"]}, "columns is ['t'], not a mapping of names to texts"),
        (GOOD | {"where": {"Model": 4}}, "where is {'Model': 4}, not a mapping of names to texts"),
        (GOOD | {"unit_s": 0}, "unit_s is 0, not a number above 0"),
        (GOOD | {"speed": None}, "speed is None, not a number above 0"),
        (GOOD | {"speed": -1}, "speed is -1, not a number above 0"),
        (GOOD | {"start_s": -1}, "start_s is -1, not a number of at least 0"),
        (GOOD | {"duration_s": 0}, "duration_s is 0, not a number above 0"),
        (GOOD | {"max_input_len": 0}, "max_input_len is 0, at least 1 is needed"),
        (GOOD | {"max_output_len": 1.5}, "max_output_len is 1.5, at least 1 is needed"),
        (GOOD | {"too_long": "cut"}, "too_long is 'cut', known: clip, skip"),
        (GOOD | {"block_tokens": 0}, "block_tokens is 0, at least 1 is needed"),
        (GOOD | {"token_ids": (5, 2)}, "token_ids is (5, 2), not (first, end)"),
        (GOOD | {"endpoint": "chat"}, "its prompts are token ids, which the chat endpoint does "),
        (GOOD | {"scale": 2}, "unknown option 'scale'. Known: arrival,"),
    ],
)
def test_values_that_cannot_be_are_refused_at_once(options, complaint):
    """When the suite is collected, not when the file is read."""
    with pytest.raises(SpecError) as caught:
        trace("x", **options)
    assert "traffic 'x'" in str(caught.value)
    assert complaint in str(caught.value)
