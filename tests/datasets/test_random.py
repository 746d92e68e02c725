"""random: exact lengths, vLLM's lengths for the same seed, and what is refused."""

from __future__ import annotations

import pytest

from pytest_llmperf.datasets import DATASETS
from pytest_llmperf.datasets.random import random
from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.traffic import TrafficSpec


@pytest.fixture
def draw(tokenizer):
    """Draw the prompts of a spec."""
    return lambda spec: DATASETS["random"].prompts(spec, tokenizer)


def test_lengths_are_exact(draw):
    """As many ids as input_len says; the count needs no tokenizer."""
    drawn = draw(random("x", num_prompts=3, input_len=7, output_len=5))
    assert [(len(p.content), p.prompt_tokens, p.output_tokens) for p in drawn.prompts] == [
        (7, 7, 5)
    ] * 3
    assert (drawn.counted_by, drawn.notes) == ("token ids", ())


def test_ids_come_from_the_range_set(draw):
    """[first, end): 5, 6 and 7 of (5, 8), all of them among 600."""
    drawn = draw(random("x", num_prompts=3, input_len=200, token_ids=(5, 8)))
    assert {token for p in drawn.prompts for token in p.content} == {5, 6, 7}


def test_default_ids_are_valid_in_common_vocabularies(draw):
    """1,000 to 30,999: inside every common vocabulary, above its special tokens."""
    ids = {token for p in draw(random("x", num_prompts=40)).prompts for token in p.content}
    assert min(ids) >= 1_000
    assert max(ids) < 31_000
    assert len(ids) > 20_000  # 40,960 drawn of 30,000


def test_a_prefix_is_shared_and_prompts_differ_after_it(draw):
    """prefix_len ids in front of every prompt, beside input_len of its own."""
    drawn = draw(random("x", num_prompts=4, input_len=6, prefix_len=10))
    assert len({p.content[:10] for p in drawn.prompts}) == 1
    assert len({p.content[10:] for p in drawn.prompts}) == 4
    assert {p.prompt_tokens for p in drawn.prompts} == {16}


@pytest.mark.parametrize(
    ("ratio", "prompts", "outputs"),
    [
        # What RandomDataset of vLLM 0.32.0 drew for --random-input-len 40
        # --random-output-len 12 --seed 5 (with a tokenizer without special tokens).
        (0.3, [44, 48, 28, 48, 39, 40], [13, 10, 16, 8, 10, 11]),
        ({"input": 0.5, "output": 0.25}, [47, 53, 20, 53, 39, 41], [13, 11, 15, 9, 10, 11]),
    ],
)
def test_lengths_around_a_mean_are_vllms(draw, ratio, prompts, outputs):
    """The same seed gives the lengths of vLLM's bench, for input and output."""
    drawn = draw(random("x", num_prompts=6, seed=5, input_len=40, output_len=12, range_ratio=ratio))
    assert [p.prompt_tokens for p in drawn.prompts] == prompts
    assert [len(p.content) for p in drawn.prompts] == prompts
    assert [p.output_tokens for p in drawn.prompts] == outputs


def test_another_seed_makes_other_prompts(draw):
    """The seed is what draws them."""
    first, again, other = (
        draw(random("x", num_prompts=2, seed=seed)).prompts for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"input_len": -1}, "input_len is -1, not a count"),
        ({"input_len": 1.5}, "input_len is 1.5, not a count"),
        ({"output_len": 0}, "output_len is 0, at least 1 is needed"),
        ({"prefix_len": None}, "prefix_len is None, not a count"),
        ({"range_ratio": 1.0}, "range_ratio is 1.0, not a share"),
        ({"range_ratio": {"input": 0.5}}, "one for 'input' and one for 'output'"),
        ({"range_ratio": "half"}, "range_ratio is 'half', not a share"),
        ({"input_len": 1, "range_ratio": 0.5}, "a prompt could be empty"),
        ({"token_ids": (9, 9)}, "token_ids is (9, 9), not (first, end)"),
        ({"token_ids": 32000}, "token_ids is 32000, not (first, end)"),
        ({"seed": -1}, "seed is -1, not between 0 and 2**32 - 1"),
        ({"endpoint": "chat"}, "its prompts are token ids, which the chat endpoint does not take"),
        ({"input_length": 9}, "unknown option 'input_length'"),
    ],
)
def test_values_that_cannot_be_are_refused_at_once(options, complaint):
    """When the suite is collected, with the traffic, the value and the rule."""
    with pytest.raises(SpecError) as caught:
        random("x", **options)
    assert "traffic 'x'" in str(caught.value)
    assert complaint in str(caught.value)


def test_a_spec_made_elsewhere_is_checked_too(draw):
    """A spec that the constructor did not make answers a typo with the known options."""
    spec = TrafficSpec.of("x", "random", {"inputlen": 5}, {})
    with pytest.raises(SpecError) as caught:
        draw(spec)
    assert str(caught.value) == (
        "traffic 'x', dataset 'random': unknown option 'inputlen'. Known: input_len, "
        "output_len, prefix_len, range_ratio, token_ids"
    )
