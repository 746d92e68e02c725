"""The dataset flags of bench: what each dataset gets of them."""

from __future__ import annotations

import pytest

from pytest_llmperf.cli._bench_flags import traffic_spec
from pytest_llmperf.errors import LlmPerfError
from tests.cli.test_bench import flags


def spec(*words):
    return traffic_spec(flags(*words))


def test_custom_is_vllms() -> None:
    """256 tokens a prompt whatever the file says, shuffled, the end of an answer not forced."""
    made = spec("--dataset-name", "custom", "--dataset-path", "own.jsonl", "--skip-chat-template")
    assert (made.dataset, made.ignore_eos) == ("custom", False)
    assert dict(made.dataset_options) == {
        "path": "own.jsonl", "output_len": 256, "default_output_len": None, "shuffle": True,
    }  # fmt: skip


def test_custom_can_take_lengths_and_order_from_the_file() -> None:
    """--custom-output-len -1 and --disable-shuffle, as there."""
    made = spec("--dataset-name", "custom", "--dataset-path", "own.jsonl",
                "--custom-output-len", "-1", "--disable-shuffle")  # fmt: skip
    assert dict(made.dataset_options)["output_len"] is None
    assert dict(made.dataset_options)["shuffle"] is False


def test_timed_trace_is_vllms() -> None:
    """Its labels, units and block length; lengths are forced and times are the trace's."""
    made = spec(
        "--dataset-name", "timed_trace", "--dataset-path", "t.jsonl",
        "--timed-trace-chunk-hash-size", "512", "--timed-trace-sec-multiplier", "0.001",
        "--timed-trace-label-timestamp", "t", "--timed-trace-label-input-length", "i",
        "--timed-trace-label-output-length", "o", "--timed-trace-label-hash-ids", "h",
    )  # fmt: skip
    assert (made.dataset, made.arrival, made.ignore_eos) == ("trace", "trace", True)
    options = dict(made.dataset_options)
    assert (options["unit_s"], options["block_tokens"]) == (0.001, 512)
    assert str(options["columns"]) == (
        '{"hash_ids": "h", "input_tokens": "i", "output_tokens": "o", "timestamp": "t"}'
    )


def test_the_defaults_of_timed_trace_are_vllms() -> None:
    """Seconds, and 16 tokens a block."""
    options = dict(spec("--dataset-name", "timed_trace", "--dataset-path", "t").dataset_options)
    assert (options["unit_s"], options["block_tokens"]) == (1.0, 16)


def test_a_trace_of_a_public_format() -> None:
    """--trace-format and --trace-speed are ours."""
    made = spec("--dataset-name", "trace", "--dataset-path", "b.csv", "--trace-format", "burstgpt",
                "--trace-speed", "2")  # fmt: skip
    options = dict(made.dataset_options)
    assert (options["format"], options["speed"], made.arrival) == ("burstgpt", 2.0, "trace")


def test_a_trace_can_be_sent_at_a_rate() -> None:
    """--no-self-timed: its lengths, at Poisson arrivals."""
    made = spec("--dataset-name", "timed_trace", "--dataset-path", "t", "--no-self-timed",
                "--request-rate", "4", "--burstiness", "0.5")  # fmt: skip
    assert (made.arrival, made.request_rate) == ("poisson", 4.0)
    assert made.arrival_options == (("burstiness", 0.5),)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dataset-name", "custom"), "custom needs a file: --dataset-path"),
        (("--dataset-name", "timed_trace"), "timed_trace needs a file: --dataset-path"),
        (("--dataset-name", "trace", "--dataset-path", "x"), "say it, or set format to 'mooncake'"),
        (
            ("--dataset-name", "timed_trace", "--dataset-path", "x", "--request-rate", "4"),
            "add --no-self-timed",
        ),
        (
            ("--dataset-name", "timed_trace", "--dataset-path", "x", "--backend", "openai-chat"),
            "token ids, which the chat endpoint does not take",
        ),
        (("--self-timed",), "only the datasets trace and timed_trace have times"),
        (("--disable-shuffle",), "only the dataset custom can keep the file's order"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(words, message) -> None:
    """Before anything is sent, with what to do."""
    with pytest.raises(LlmPerfError, match=message):
        spec(*words)
