"""prefix_repetition: shared prefixes, own suffixes, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pytest_llmperf.datasets import DATASETS
from pytest_llmperf.datasets.prefix_repetition import prefix_repetition
from pytest_llmperf.errors import SpecError


@pytest.fixture
def draw(tokenizer):
    """Draw the prompts of a spec."""
    return lambda spec: DATASETS["prefix_repetition"].prompts(spec, tokenizer).prompts


def test_prefixes_are_shared_and_suffixes_are_not(draw):
    """12 prompts on 3 prefixes: each prefix 4 times, no suffix twice, exact lengths."""
    prompts = draw(
        prefix_repetition(
            "x", num_prompts=12, num_prefixes=3, prefix_len=8, suffix_len=5, output_len=9
        )
    )
    assert sorted(Counter(p.content[:8] for p in prompts).values()) == [4, 4, 4]
    assert len({p.content[8:] for p in prompts}) == 12
    assert {(len(p.content), p.prompt_tokens, p.output_tokens) for p in prompts} == {(13, 13, 9)}


def test_prefixes_come_in_vllms_order(draw):
    """The order is that of Python's shuffle of 0, 0, 0, 1, 1, 1, 2, 2, 2 with the seed."""
    prompts = draw(prefix_repetition("x", num_prompts=9, num_prefixes=3, seed=0))
    numbers = {}
    order = [numbers.setdefault(p.content[:256], len(numbers)) for p in prompts]
    # random.seed(0); random.shuffle([0, 0, 0, 1, 1, 1, 2, 2, 2]), numbered as they first come
    assert order == [0, 1, 2, 1, 1, 2, 2, 0, 0]


def test_all_prompts_asked_for_are_made(draw):
    """10 prompts on 4 prefixes: two prefixes get one more; vLLM would send 8."""
    prompts = draw(prefix_repetition("x", num_prompts=10, num_prefixes=4, prefix_len=6))
    assert sorted(Counter(p.content[:6] for p in prompts).values()) == [2, 2, 3, 3]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"num_prefixes": 0}, "num_prefixes is 0, at least 1 is needed"),
        ({"num_prefixes": 101}, "num_prefixes is 101, more than the 100 prompts"),
        ({"output_len": 0}, "output_len is 0, at least 1 is needed"),
        ({"prefix_len": -1}, "prefix_len is -1, not a count"),
        ({"suffix_len": "9"}, "suffix_len is '9', not a count"),
        ({"prefix_len": 0, "suffix_len": 0}, "prefix_len and suffix_len are both 0"),
        ({"token_ids": (5, 2)}, "token_ids is (5, 2), not (first, end)"),
        ({"endpoint": "chat"}, "its prompts are token ids, which the chat endpoint does not take"),
        ({"prefixes": 9}, "unknown option 'prefixes'"),
    ],
)
def test_values_that_cannot_be_are_refused_at_once(options, complaint):
    """When the suite is collected, with the traffic, the value and the rule."""
    with pytest.raises(SpecError) as caught:
        prefix_repetition("x", **options)
    assert "traffic 'x'" in str(caught.value)
    assert complaint in str(caught.value)


def test_a_rehearsal_may_cut_it_below_its_prefixes(draw):
    """Three prompts of a traffic with ten prefixes have three of them."""
    whole = prefix_repetition("x", num_prompts=20, num_prefixes=10, prefix_len=4, suffix_len=2)
    prompts = draw(replace(whole, num_prompts=3))
    assert len({prompt.content[:4] for prompt in prompts}) == 3
