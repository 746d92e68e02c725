"""custom: vLLM's order for the same file, the forms of a line, and lines of no use."""

from __future__ import annotations

import json
import random

import pytest

from pytest_llmperf.datasets import DATASETS
from pytest_llmperf.datasets.custom import custom
from pytest_llmperf.errors import DatasetError, SpecError


@pytest.fixture
def draw(tokenizer):
    """Draw the prompts of a spec, counted in words."""
    return lambda spec: DATASETS["custom"].prompts(spec, tokenizer)


@pytest.fixture
def lines(tmp_path):
    """Write objects, or bytes as they are, as the lines of a file; return its path."""

    def make(*records, end=b"\n"):
        path = tmp_path / "own.jsonl"
        path.write_bytes(
            b"".join(
                (record if isinstance(record, bytes) else json.dumps(record).encode()) + end
                for record in records
            )
        )
        return str(path)

    return make


def numbered(count):
    return [{"prompt": f"number {i}", "output_tokens": i + 1} for i in range(count)]


def as_vllm(records, count, seed, output_len=None):
    """CustomDataset of vLLM 0.32 with --skip-chat-template, written plainly, as there."""
    state = random.getstate()
    data = list(records)
    random.seed(seed)
    random.shuffle(data)
    samples = [
        (item["prompt"], item["output_tokens"] if output_len is None else output_len)
        for item in data[:count]
    ]
    if len(samples) < count:
        random.seed(seed)
        samples.extend([random.choice(samples) for _ in range(count - len(samples))])  # noqa: S311  # as there
    random.setstate(state)
    return samples


@pytest.mark.parametrize(
    ("count", "seed", "output_len"), [(5, 0, None), (20, 7, 24), (20, 3, None), (33, 3, None)]
)
def test_the_prompts_are_vllms(draw, lines, count, seed, output_len):
    """Same file, seed and count: vLLM's prompts, lengths and order, repeats too."""
    records = numbered(20)
    spec = custom("x", path=lines(*records), num_prompts=count, seed=seed, output_len=output_len)
    found = [(p.content, p.output_tokens) for p in draw(spec).prompts]
    assert found == as_vllm(records, count, seed, output_len)


def test_the_files_order_can_be_kept_and_then_no_more_is_read_than_needed(draw, lines):
    """shuffle=False: the first three, though the fourth line is broken."""
    path = lines(*numbered(3), b"{broken")
    drawn = draw(custom("x", path=path, num_prompts=3, shuffle=False))
    assert [(p.content, p.prompt_tokens, p.output_tokens) for p in drawn.prompts] == [
        ("number 0", 2, 1),
        ("number 1", 2, 2),
        ("number 2", 2, 3),
    ]
    assert (drawn.counted_by, drawn.notes) == ("words", ())


def test_repeats_are_said(draw, lines):
    """A file of two prompts for five requests."""
    drawn = draw(custom("x", path=lines(*numbered(2)), num_prompts=5, shuffle=False))
    assert [p.content for p in drawn.prompts[:2]] == ["number 0", "number 1"]
    assert {p.content for p in drawn.prompts[2:]} <= {"number 0", "number 1"}
    assert len(drawn.prompts) == 5
    assert drawn.notes == ("only 2 prompts are in own.jsonl: 3 of the 5 requests repeat them",)


@pytest.mark.parametrize(
    ("fields", "options", "expected"),
    [
        ({"output_tokens": 7}, {}, 7),
        ({"output_len": 7}, {}, 7),
        ({"output_tokens": 7.0}, {}, 7),  # what pandas writes for a column with gaps
        ({"output_tokens": None}, {"default_output_len": 3}, 3),
        ({}, {"default_output_len": 3}, 3),
        ({"output_tokens": 7}, {"default_output_len": 3}, 7),
        ({"output_tokens": 7}, {"output_len": 5, "default_output_len": 3}, 5),
        ({"output_tokens": "many"}, {"output_len": 5}, 5),
    ],
)
def test_whose_length_an_answer_has(draw, lines, fields, options, expected):
    """output_len before the line's own, that before default_output_len."""
    path = lines({"prompt": "a", "category": "writing", **fields})
    assert (
        draw(custom("x", path=path, num_prompts=1, **options)).prompts[0].output_tokens == expected
    )


def test_messages_are_for_the_chat_endpoint(draw, lines):
    """Roles and texts as they stand; the tokens are those of all texts."""
    path = lines(
        {
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "why is it so", "name": "me"},
            ],
            "output_tokens": 9,
        }
    )
    (prompt,) = draw(custom("x", path=path, num_prompts=1, endpoint="chat")).prompts
    assert prompt.content == (("system", "be brief"), ("user", "why is it so"))
    assert (prompt.prompt_tokens, prompt.output_tokens) == (6, 9)


def test_token_ids_need_no_tokenizer(draw, lines):
    """A prompt that is ids is as long as they are, and who counted is said so."""
    path = lines({"prompt_token_ids": [5, 6, 7], "output_tokens": 2})
    drawn = draw(custom("x", path=path, num_prompts=1))
    assert (drawn.prompts[0].content, drawn.prompts[0].prompt_tokens) == ((5, 6, 7), 3)
    assert drawn.counted_by == "token ids"


@pytest.mark.parametrize(
    "end", [b"\n", b"\r\n", b"\n\n  \n"], ids=["unix", "windows", "blank lines"]
)
def test_a_byte_order_mark_line_ends_and_blank_lines_do_not_matter(draw, tmp_path, end):
    """What editors and other systems leave in a file; text is UTF-8."""
    first = '{"prompt": "Grüße 世界 🙂", "output_len": 1}'.encode()
    (tmp_path / "x.jsonl").write_bytes(
        b"\xef\xbb\xbf" + end.join([first, b'{"prompt": "b", "output_len": 2}'])
    )
    spec = custom("x", path=tmp_path / "x.jsonl", num_prompts=2, shuffle=False)
    assert [p.content for p in draw(spec).prompts] == ["Grüße 世界 🙂", "b"]


LATIN = '{"prompt": "Grüße", "output_len": 1}'.encode("latin-1")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"prompt": "a"', "is not JSON: unexpected end of data (byte "),
        (LATIN, "is not JSON: str is not valid UTF-8"),
        (b'{"prompt": "\\ud800", "output_len": 1}', "is not JSON: no low surrogate in string"),
        (b'["a"]', "is JSON, but not an object; one object a line is needed (JSONL)"),
        (b"{}", "has no prompt; exactly one of prompt (a text), prompt_token_ids and messages"),
        (b'{"prompt": "a", "messages": []}', "has prompt and messages; exactly one of"),
        (b'{"prompt": ""}', "has a prompt that is no text but ''"),
        (b'{"prompt": ["a"]}', "has a prompt that is no text but ['a']"),
        (b'{"prompt": "a"}', "does not say how long its answer is (output_tokens or output_len)"),
        (b'{"prompt": "a", "output_len": 0}', "has output_len 0, not a number of at least 1"),
        (b'{"prompt": "a", "output_tokens": "9"}', "has output_tokens '9', not a number"),
        (b'{"prompt": "a", "output_tokens": true}', "has output_tokens True, not a number"),
        (b'{"prompt": "a", "output_tokens": 1e300}', "has output_tokens 1000000000000000"),
        (b'{"prompt": "a", "output_len": 10000001}', "has output_len 10000001, more than 10,000"),
        (b'{"prompt_token_ids": []}', "has prompt_token_ids that are no list of ids but []"),
        (b'{"prompt_token_ids": [1, -2]}', "has prompt_token_ids that are no list of ids"),
        (
            b'{"messages": [{"role": "user", "content": "a"}]}',
            "has messages, which the completions endpoint does not take; use chat",
        ),
    ],
)
def test_a_line_of_no_use_is_named(draw, lines, line, complaint):
    """With the file, the line's number as an editor shows it, and what is wrong."""
    path = lines(*numbered(1), b"", line, *numbered(1))
    with pytest.raises(DatasetError) as caught:
        draw(custom("x", path=path))
    assert str(caught.value).startswith(f"custom: {path}, line 3 {complaint}")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"prompt_token_ids": [1]}, "has prompt_token_ids, which the chat endpoint does not take"),
        ({"messages": []}, "has messages that are no list of messages but []"),
        ({"messages": "hi"}, "has messages that are no list of messages but 'hi'"),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": ["b"]}]},
            "has a message (2 of 2) without a role and a text as content: {'role': 'user', ",
        ),
        ({"messages": ["a"]}, "has a message (1 of 1) without a role and a text as content: 'a'"),
    ],
)
def test_a_line_of_no_use_for_chat_is_named(draw, lines, line, complaint):
    """The same, for what only the chat endpoint takes, or does not take."""
    path = lines(line)
    with pytest.raises(DatasetError) as caught:
        draw(custom("x", path=path, endpoint="chat"))
    assert str(caught.value).startswith(f"custom: {path}, line 1 {complaint}")


def test_a_file_without_lines_and_no_file_are_named(draw, lines, tmp_path):
    """The path, and what is wrong with it."""
    path = lines(b"", b"  ")
    with pytest.raises(DatasetError, match=f"custom: {path} has no lines"):
        draw(custom("x", path=path))
    with pytest.raises(DatasetError, match=r"custom: cannot read .*absent: No such file"):
        draw(custom("x", path=tmp_path / "absent"))
    with pytest.raises(DatasetError, match=f"custom: cannot read {tmp_path}: Is a directory"):
        draw(custom("x", path=tmp_path))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"path": ""}, "path is '', not the name of a file"),
        ({"output_len": 0}, "output_len is 0, at least 1 is needed"),
        ({"output_len": 10_000_001}, "output_len is 10000001, at most 10,000,000 is possible"),
        ({"default_output_len": -1}, "default_output_len is -1, at least 1 is needed"),
        ({"shuffle": "no"}, "shuffle is 'no', not True or False"),
        ({"outputlen": 12}, "unknown option 'outputlen'. Known: arrival,"),
    ],
)
def test_values_that_cannot_be_are_refused_at_once(options, complaint):
    """When the suite is collected, not when the file is read."""
    with pytest.raises(SpecError) as caught:
        custom("x", **{"path": "own.jsonl", **options})
    assert "traffic 'x'" in str(caught.value)
    assert complaint in str(caught.value)
