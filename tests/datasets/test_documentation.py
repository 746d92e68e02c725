"""docs/datasets.md: every dataset and arrival process with every option, and examples that work."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from pytest_llmperf.arrivals import ARRIVALS
from pytest_llmperf.datasets import DATASETS
from pytest_llmperf.datasets.custom import custom
from pytest_llmperf.datasets.sharegpt import sharegpt
from pytest_llmperf.datasets.trace import trace

PAGE = (Path(__file__).parents[2] / "docs/datasets.md").read_text("utf-8")


def section(title):
    """Return what stands below a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def examples(dataset):
    """Return the blocks of a dataset's section."""
    return re.findall(r"```(?:json|text)\n(.*?)```", section(f"`{dataset}`"), re.S)


@pytest.mark.parametrize("dataset", DATASETS.names())
def test_every_option_of_every_dataset_is_there(dataset):
    """A section a dataset, which names each option of its constructor in a table."""
    constructor = getattr(DATASETS.module(dataset), dataset)
    kinds = inspect.Parameter
    own = {
        name
        for name, parameter in inspect.signature(constructor).parameters.items()
        if parameter.kind is kinds.KEYWORD_ONLY
    }
    cells = " ".join(re.findall(r"^\|([^|]*)\|", section(f"`{dataset}`"), re.M))
    assert own - set(re.findall(r"`(\w+)`", cells)) == set()


def test_every_arrival_process_is_there():
    """A row each, and no other."""
    assert sorted(re.findall(r"^\| `(\w+)` \|", section("Arrivals"), re.M)) == list(ARRIVALS)


def test_the_examples_of_files_are_read(tmp_path, tokenizer):
    """Each block, saved as it stands, gives as many requests as it has."""
    path = tmp_path / "example"
    mooncake, burstgpt, azure = examples("trace")
    (talks,), (own,) = examples("sharegpt"), examples("custom")
    for content, spec in (
        (talks, sharegpt("x", path=path, num_prompts=2, min_len=1)),
        (own, custom("x", path=path, num_prompts=2, endpoint="chat")),
        (mooncake, trace("x", path=path, num_prompts=2, format="mooncake")),
        (burstgpt, trace("x", path=path, num_prompts=1, format="burstgpt")),
        (azure, trace("x", path=path, num_prompts=1, format="azure")),
    ):
        path.write_text(content, "utf-8")
        drawn = DATASETS[spec.dataset].prompts(spec, tokenizer)
        assert len(drawn.prompts) == spec.num_prompts
        assert drawn.notes == ()
