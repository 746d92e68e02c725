"""Token counts: by a model's tokenizer.json, or by an estimate that says it is one."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import pytest

from pytest_llmperf import tokens
from pytest_llmperf.errors import UsageError
from pytest_llmperf.tokens import Estimate, tokenizer_for

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


@pytest.fixture(autouse=True)
def hub(tmp_path_factory, monkeypatch):
    """The hub's cache of this test: empty, whatever this machine has downloaded."""
    home = tmp_path_factory.mktemp("huggingface")
    monkeypatch.setenv("HF_HOME", str(home))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    return home / "hub"


def cached(hub, model, *commits, main=None):
    """Lay a model's tokenizer into the hub's cache, one snapshot a commit."""
    folder = hub / f"models--{model}"
    for commit in commits:
        snapshot = folder / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (snapshot / "tokenizer.json").write_text(json.dumps(TOKENIZER | {"version": commit}))
    if main is not None:
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(main)


def digest_of(hub, model, commit):
    """Return the first digits of the SHA-256 of a snapshot's file."""
    file = hub / f"models--{model}" / "snapshots" / commit / "tokenizer.json"
    return hashlib.sha256(file.read_bytes()).hexdigest()[:8]


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


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE"])
def test_a_hub_name_counts_by_what_was_downloaded_before(hub, monkeypatch, tmp_path, variable):
    """The snapshot that main names, of two; wherever the environment says the cache lies."""
    pytest.importorskip("tokenizers")
    if variable == "HF_HUB_CACHE":
        hub = tmp_path / "elsewhere"
        monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    cached(hub, "Qwen--Qwen3-14B", "1.0", "aaaa", main="1.0")
    tokenizer = tokenizer_for("Qwen/Qwen3-14B")
    assert tokenizer.name == f"tokenizer {digest_of(hub, 'Qwen--Qwen3-14B', '1.0')}"
    assert tokenizer.count("a a b") == 4
    assert tokenizer_for("Qwen/Qwen3-8B").name.startswith("estimate")


def test_a_snapshot_that_main_does_not_name_counts_if_it_is_the_only_one(hub):
    """Downloaded by commit: one is the model's; of two, nobody knows which."""
    pytest.importorskip("tokenizers")
    cached(hub, "gpt2", "1.0")
    cached(hub, "org--two", "1.0", "aaaa")
    assert tokenizer_for("gpt2").name == f"tokenizer {digest_of(hub, 'gpt2', '1.0')}"
    assert tokenizer_for("org/two").name.startswith("estimate")


def test_half_a_character_is_counted(folder):
    """Public data sets hold lone surrogates: one more word here, and no error."""
    pytest.importorskip("tokenizers")
    assert tokenizer_for(folder).count("a \ud83d a") == 4


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


def test_the_hubs_cache_can_be_left_out(tmp_path, monkeypatch):
    """A campaign counts alike before and after the server has downloaded its model."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--org--name" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text("{")
    assert isinstance(tokenizer_for("org/name", hub=False), Estimate)
    with pytest.raises(UsageError):
        tokenizer_for("org/name")
