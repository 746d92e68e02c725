from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_llmperf.cli import inspect
from pytest_llmperf.cli._inspect_lengths import Bin, Lengths, histogram, plain, statistics
from pytest_llmperf.cli._inspect_sharegpt import left_out, read
from pytest_llmperf.datasets.sharegpt import DATASET, read_options, sharegpt
from pytest_llmperf.errors import DatasetError, UsageError
from pytest_llmperf.tokens import Estimate

SMOLLM2 = Path(__file__).parents[2] / ".vllm-cpu" / "models" / "smollm2"


def turn(role, size):
    """A turn that the estimate (4 bytes a token) counts as ``size`` tokens."""
    return {"from": role, "value": "abc " * size}


def talk(*sizes, first="human"):
    roles = [first, *("gpt", "human") * len(sizes)]
    return {"conversations": [turn(role, size) for role, size in zip(roles, sizes, strict=False)]}


TALKS = [
    talk(10, 20),
    talk(30, 40, 50, 60),
    talk(3, 40),
    talk(40, 2),
    talk(1025, 10),
    talk(1000, 1049),
    talk(70),
    talk(100, 200, 300, first="system"),
]
"""Usable are the first, the second and the last; each other breaks one rule, or has one turn."""


@pytest.fixture
def file(tmp_path):
    """Write conversations, cut to ``keep`` bytes."""

    def write(records=TALKS, keep=None):
        path = tmp_path / "talks.json"
        path.write_bytes(json.dumps(records).encode()[:keep])
        return path

    return write


@pytest.fixture
def inspected(call):
    """Return what inspect says as JSON."""

    def ask(*words):
        status, out, err = call("inspect", "--json", *words)
        assert status == 0, err
        return json.loads(out)

    return ask


def of_file(path):
    return ("--dataset-name", "sharegpt", "--dataset-path", path)


def test_a_whole_file_of_conversations(inspected, file):
    """Conversations, turns, roles; the lengths of all pairs; what the filter leaves of them."""
    found = inspected(*of_file(file()))
    overview = found["overview"]
    assert (overview["conversations"], overview["turns"]) == (8, 18)  # 2+4+2+2+2+2+1+3
    assert overview["roles"] == {"human": 9, "gpt": 8, "system": 1}
    assert (overview["with an exchange"], overview["usable"]) == (7, 3)
    assert overview["left out by the filter"] == {
        "both longer than 2,048": 1,
        "output shorter than 4": 1,
        "prompt longer than 1,024": 1,
        "prompt shorter than 4": 1,
    }
    prompt = found["statistics"]["prompt"]
    assert (prompt["count"], prompt["min"], prompt["max"]) == (7, 3, 1025)
    assert prompt["50 %"] == 40  # of 3 10 30 40 100 1000 1025
    assert found["statistics"]["total"]["max"] == 2049
    assert found["counted_by"] == "estimate: 4 bytes a token"


def test_as_many_are_usable_as_a_replay_draws_from(file):
    """The count is that of the dataset itself, which says how many it has to repeat."""
    path = file()
    (note,) = DATASET.prompts(sharegpt("x", path=str(path), num_prompts=1000), Estimate()).notes
    assert note.startswith("only 3 conversations")


def test_a_truncated_file_is_read_as_far_as_it_is_whole(inspected, file):
    """And it is said where it ends."""
    size = len(json.dumps(TALKS[:3]))
    found = inspected(*of_file(file(keep=size + 20)))
    assert found["overview"]["conversations"] == 3
    assert "talks.json is cut off after 3 whole conversations" in found["notes"][0]
    assert found["statistics"]["prompt"]["count"] == 3


def test_forced_lengths_take_the_answers_place(inspected, file):
    """--sharegpt-output-len 5: no output is too short or makes the sum too long."""
    found = inspected(*of_file(file()), "--sharegpt-output-len", "5")
    assert found["statistics"]["output"]["max"] == found["statistics"]["output"]["min"] == 5
    assert found["overview"]["left out by the filter"] == {
        "prompt shorter than 4": 1,
        "prompt longer than 1,024": 1,
    }


def test_a_sample_is_what_a_replay_sends(inspected, file):
    """With --num-prompts: filtered, shuffled by the seed, with the traffic's digest."""
    path = file()
    found = inspected(*of_file(path), "--num-prompts", "2", "--request-rate", "5")
    assert found["overview"]["requests"] == 2
    assert found["overview"]["content"] == {"text": 2}
    assert set(found["overview"]) >= {"digest", "offered rate (req/s)"}
    other = inspected(*of_file(path), "--num-prompts", "2", "--seed", "1")
    assert found["overview"]["digest"] != other["overview"]["digest"]


def test_the_sample_has_the_digest_of_bench(inspected):
    """The same flags make the same traffic: what is looked at is what is sent."""
    from pytest_llmperf.cli._bench_flags import traffic_spec
    from pytest_llmperf.replay.build import build_traffic
    from tests.cli.test_bench import flags

    words = ("--num-prompts", "5", "--random-input-len", "7", "--backend", "openai")
    traffic = build_traffic(traffic_spec(flags(*words)), Estimate())
    assert inspected(*words)["overview"]["digest"] == traffic.digest


def test_random_and_prefix_repetition(inspected):
    """Token ids need no counting; the lengths are those that the flags ask for."""
    found = inspected("--num-prompts", "20", "--random-input-len", "64")
    assert found["overview"]["content"] == {"token ids": 20}
    assert found["statistics"]["prompt"]["mean"] == 64
    assert found["histograms"]["prompt"] == [{"from": 64, "below": 65, "count": 20}]
    found = inspected("--dataset-name", "prefix_repetition", "--num-prompts", "20")
    assert found["statistics"]["prompt"]["max"] == 512
    assert inspected()["overview"]["requests"] == 1000


def test_an_unknown_dataset_names_the_known_ones(call):
    """As everywhere."""
    status, _, err = call("inspect", "--dataset-name", "sharegtp")
    assert (status, "Did you mean 'sharegpt'?" in err) == (2, True)


def test_bins_must_be_some(call):
    """A histogram of none is refused."""
    assert call("inspect", "--bins", "0")[0] == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("[]", "is not a JSON list of conversations, nor has it one a line"),
        ("{}", "none of the 1 records of .* has two turns of text"),
        ('[{"conversations": []}]', "none of the 1 records of .* has two turns of text"),
        ("not json", "is not a JSON list of conversations .it begins with 'not json'."),
    ],
)
def test_a_file_of_no_use_is_refused(tmp_path, text, told):
    """With what is needed, in the words of a replay of it."""
    path = tmp_path / "talks.json"
    path.write_text(text)
    with pytest.raises(DatasetError, match=told):
        read(sharegpt("x", path=path))
    with pytest.raises(DatasetError, match="No such file"):
        read(sharegpt("x", path=tmp_path / "none.json"))


def test_records_that_are_not_text_are_counted_but_not_measured(inspected, file):
    """A number in place of a record, turns that are none, a picture: none stops the rest."""
    odd = [7, {"conversations": ["a", "b"]}, {**talk(5, 5), "image": "x.png"}, talk(5, 5)]
    found = inspected(*of_file(file(odd)))
    assert found["overview"]["conversations"] == 4
    assert found["statistics"]["prompt"]["count"] == 1
    assert any("are not text alone" in note for note in found["notes"])


def test_the_other_forms_of_such_files(inspected, tmp_path):
    """JSON lines of messages: a system turn goes with the prompt on the chat endpoint."""
    turns = [("system", 7), ("user", 10), ("assistant", 20)]
    messages = [{"role": role, "content": "abc " * size} for role, size in turns]
    path = tmp_path / "talks.jsonl"
    path.write_text(json.dumps({"messages": messages}) + '\n{"messages": [{')
    found = inspected(*of_file(path))
    assert found["overview"]["roles"] == {"system": 1, "user": 1, "assistant": 1}
    assert found["statistics"]["prompt"]["max"] == 10
    assert "cut off after 1 whole conversations" in found["notes"][0]
    chat = inspected(*of_file(path), "--backend", "openai-chat")
    assert chat["statistics"]["prompt"]["max"] == 17


def test_a_file_of_prompts_of_one_s_own(inspected, tmp_path):
    """All lines of custom, once each; some of them with --num-prompts."""
    path = tmp_path / "own.jsonl"
    lines = [json.dumps({"prompt": "abc " * size, "output_tokens": 9}) for size in (1, 2, 3)]
    path.write_text("\n".join(lines))
    words = ("--dataset-name", "custom", "--dataset-path", path, "--custom-output-len", "-1")
    found = inspected(*words)
    assert (found["overview"]["requests"], found["overview"]["different"]) == (3, 3)
    assert found["statistics"]["prompt"]["mean"] == 2
    assert found["statistics"]["output"]["mean"] == 9
    assert inspected(*words, "--num-prompts", "2")["overview"]["requests"] == 2


def test_a_trace(inspected, tmp_path):
    """Lengths and times as they were recorded."""
    path = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 500 * n, "input_length": 10 + n, "output_length": 5} for n in range(3)]
    path.write_text("\n".join(json.dumps({**row, "hash_ids": [1]}) for row in rows))
    found = inspected(
        "--dataset-name", "trace", "--trace-format", "mooncake", "--dataset-path", path,
        "--num-prompts", "3",
    )  # fmt: skip
    assert found["statistics"]["prompt"]["max"] == 12
    assert found["overview"]["offered rate (req/s)"] == 2  # 3 requests in 1,000 ms


def test_conversations_of_several_turns(inspected, file):
    """Turns that wait for an answer are told from those that begin a conversation."""
    path = file([talk(5, 6, 7, 8), talk(5, 6, 7, 8)])
    found = inspected(
        "--dataset-name", "multi_turn", "--dataset-path", path, "--num-prompts", "4",
        "--backend", "openai-chat",
    )  # fmt: skip
    overview = found["overview"]
    assert (overview["conversations"], overview["later turns"]) == (2, 2)
    assert overview["content"] == {"messages": 4}
    # a second turn says again what was said before it: user, assistant, user
    assert overview["roles"] == {"user": 6, "assistant": 2}


def test_statistics():
    """Of 1, 2, 3, 4: mean 2.5, variance (2.25 + 0.25 + 0.25 + 2.25) / 4 = 1.25."""
    found = statistics([4, 3, 2, 1])
    assert found.pop("std") == pytest.approx(1.25**0.5)
    assert found == pytest.approx(
        {
            "count": 4,
            "mean": 2.5,
            "min": 1,
            "max": 4,
            "25 %": 1.75,
            "50 %": 2.5,
            "75 %": 3.25,
            "90 %": 3.7,
            "95 %": 3.85,
            "99 %": 3.97,
        }
    )


def test_a_histogram_ends_behind_the_99th_percentile():
    """One length of 100,000 among 1 … 200 does not push all others into one bin."""
    found = histogram([*range(1, 201), 100_000], bins=4)
    assert found == [
        Bin(0, 50, 49),
        Bin(50, 100, 50),
        Bin(100, 150, 50),
        Bin(150, 200, 50),
        Bin(200, None, 2),
    ]


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("lengths", [[5], [0, 1], list(range(95, 206)), [3] * 50 + [7, 900]])
def test_every_length_is_in_one_bin(lengths, bins):
    """Bins follow each other, there are no more than asked for, and one beyond them."""
    found = histogram(lengths, bins)
    assert sum(one.count for one in found) == len(lengths)
    assert len([one for one in found if one.high is not None]) <= bins
    assert [one.high for one in found[:-1]] == [one.low for one in found[1:]]
    assert found[0].low <= min(lengths)


def test_lengths_of_both_together():
    """Request by request."""
    assert plain(Lengths([1, 2], [10, 20]), 5)["statistics"]["total"]["max"] == 22


def test_the_filter_gives_one_reason():
    """Of a pair that breaks several rules only one is counted."""
    options = read_options(sharegpt("x"))
    assert left_out(Lengths([1], [1]), options) == {"prompt shorter than 4": 1}


def test_the_text(call, file):
    """Overview, who counted, the table of statistics, and three histograms with bars."""
    _, out, _ = call("inspect", *of_file(file()), "--bins", "4")
    lines = out.splitlines()
    assert "roles                   human: 9, gpt: 8, system: 1" in lines
    assert "tokens counted by       estimate: 4 bytes a token" in lines
    # the last but one of seven, and 94 % of the way to the last: 1,035 + 0.94 · 1,014
    assert any(line.split() == ["99", "%", "1,023.5", "998.1", "1,988.2"] for line in lines)
    assert [line for line in lines if line.endswith(" tokens")] == [
        "prompt tokens", "output tokens", "total tokens",
    ]  # fmt: skip
    assert any("█" in line for line in lines)


def test_long_counting_says_how_far_it_is(capsys, monkeypatch):
    """After two seconds, on stderr; the counts are those of the tokenizer."""
    watched = inspect.Watched(Estimate(), began=-10.0)  # long ago, on any clock
    assert watched.count("12345678") == 2
    assert watched.name == Estimate().name
    assert capsys.readouterr().err == "1 texts counted by estimate: 4 bytes a token\n"
    watched.count("1")
    assert capsys.readouterr().err == ""


def test_a_model_s_own_tokenizer_counts(inspected, file, tmp_path):
    """Its digest is the name of who counted; here a word is a token."""
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel({"abc": 0, "?": 1}, unk_token="?"))  # noqa: S106
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    (tmp_path / "model").mkdir()
    model.save(str(tmp_path / "model" / "tokenizer.json"))
    found = inspected(*of_file(file()), "--tokenizer", tmp_path / "model")
    assert found["counted_by"].startswith("tokenizer ")
    assert found["statistics"]["prompt"]["max"] == 1025


def test_lengths_that_no_text_has_are_refused():
    """2**53 is the last that the statistics are exact for; a file's own are refused before."""
    assert Lengths([1], [2**53]).output == [2**53]
    with pytest.raises(UsageError, match=r"a length \(output\) is above 2\*\*53 tokens"):
        Lengths([1], [2**53 + 1])
