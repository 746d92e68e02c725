"""Token counts: by a model's tokenizer.json, or by an estimate that says it is one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_llmperf import tokens
from pytest_llmperf.errors import UsageError
from pytest_llmperf.tokens import tokenizer_for

# Whitespace between words, one id a word, <s> before every text: the smallest real file.
TOKENIZER = {
    "version": "1.0",
    "truncation": {
        "direction": "Right",
        "max_length": 4,
        "strategy": "LongestFirst",
        "stride": 0,
    },
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
    },
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"<s>": 0, "[UNK]": 1, "a": 2}, "unk_token": "[UNK]"},
}


@pytest.fixture
def folder(tmp_path):
    """Make a model folder that holds the tokenizer above."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "count"), [("", 1), ("abcd", 1), ("abcde", 2), ("ä" * 4, 2), ("日本語", 3)]
)
def test_the_estimate_is_bytes_by_four_rounded_up(text, count):
    """UTF-8 bytes, not characters, and never less than 1."""
    assert tokenizer_for(None).count(text) == count


@pytest.mark.parametrize("model", [None, "Qwen/Qwen3-14B", "/no/such/folder"])
def test_without_a_tokenizer_the_name_says_that_it_is_an_estimate(model):
    """A model's name alone brings no tokenizer: nothing is downloaded."""
    assert tokenizer_for(model).name == "estimate: 4 bytes a token"


def test_a_folders_tokenizer_counts_special_tokens(folder):
    """``<s>`` and six words; the file's own limit of 4 is not applied, as in vLLM's bench."""
    pytest.importorskip("tokenizers")
    assert tokenizer_for(folder).count("a a b c a a") == 7


def test_its_name_is_the_files_content_and_no_path(folder, tmp_path):
    """The same on every machine: eight digits of the file's SHA-256."""
    pytest.importorskip("tokenizers")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    name = tokenizer_for(str(folder)).name
    assert name == tokenizer_for(tmp_path / "copy").name == "tokenizer 0088a9cb"


def test_without_the_package_it_is_an_estimate(folder, monkeypatch):
    """The extra is not installed: counts are estimated, and said to be."""
    monkeypatch.setattr(tokens, "find_spec", lambda _: None)
    assert tokenizer_for(folder).name == "estimate: 4 bytes a token"


def test_a_broken_file_is_named(tmp_path):
    """The package's bare Exception becomes a UsageError with the file in it."""
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UsageError, match=f"cannot read the tokenizer {tmp_path}/tokenizer.json"):
        tokenizer_for(tmp_path)


def test_the_package_is_imported_only_for_a_folder():
    """Importing the module, and an estimate, leave ``tokenizers`` alone."""
    code = (
        "import sys; from pytest_llmperf.tokens import tokenizer_for; "
        "tokenizer_for('x/y').count('text'); sys.exit('tokenizers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
