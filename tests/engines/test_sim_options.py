"""The command line: vLLM's arguments, the simulation's own, and what is refused."""

from __future__ import annotations

import pytest

from pytest_llmperf.engines import ENGINES, Place
from pytest_llmperf.engines.sim import ENGINE, sim
from pytest_llmperf.engines.sim.faults import Fault, parse_fault
from pytest_llmperf.engines.sim.options import ArgumentsError, SimOptions, parse
from pytest_llmperf.errors import SpecError


def options(*words: str) -> SimOptions:
    return parse(words, {})


def test_arguments_have_vllms_names_and_forms():
    """Dashes or underscores, with a space or ``=``, numbers in k (thousand) and K (1,024)."""
    asked = options("M", "--max_model_len=8K", "--max-num-batched-tokens", "4k", "-tp", "2")
    assert (asked.max_model_len, asked.max_num_batched_tokens) == (8192, 4000)
    assert asked.tensor_parallel_size == 2
    assert not options("M", "--no-enable-prefix-caching").enable_prefix_caching


def test_other_arguments_are_taken_and_shown():
    """As in vLLM's line of non-default arguments; the last of two counts."""
    asked = options("M", "--load-format", "dummy", "--seed", "1", "--seed=2", "--trust-remote-code")
    assert dict(asked.given) == {
        "model_tag": "M",
        "model": "M",
        "load_format": "dummy",
        "seed": 2,
        "trust_remote_code": True,
    }


def test_the_key_comes_from_the_environment_and_is_never_shown():
    """``VLLM_API_KEY``, as for vLLM."""
    asked = parse(("M",), {"VLLM_API_KEY": "secret"})
    assert asked.api_keys == ("secret",)
    assert "secret" not in repr(asked)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "arguments are required: MODEL"),
        (("M", "--max-model-len", "long"), "argument --max-model-len: invalid value: 'long'"),
        (("M", "--gpu-memory-utilization", "1.5"), "above 0 and at most 1"),
        (("M", "--max-num-seqs", "0"), "argument --max-num-seqs: invalid value: '0'"),
        (("M", "--port", "70000"), "argument --port"),
        (("M", "--slowdown", "0"), "argument --slowdown: invalid value: '0'"),
        (("M", "--sim-step-ms", "x"), "argument --sim-step-ms: invalid value: 'x'"),
        (("M", "N"), "unrecognized arguments: N"),
        (
            ("M", "--max-num-batched-tokens", "100", "--max-num-seqs", "101"),
            r"max_num_batched_tokens \(100\) must be greater than or equal to max_num_seqs \(101\)",
        ),
        (("M", "--sim-gpu", "b200"), "--sim-gpu: invalid choice: 'b200'"),
        (("M", "--sim-gpu", "l40s", "--sim-interconnect", "nvlink"), "L40S has no NVLink"),
        (("M", "--sim-fault", "boom"), "--sim-fault: a fault is KIND"),
        (("M", "--sim-acceptance", "1.2"), "--sim-acceptance: invalid value: '1.2'"),
        (("M", "--sim-acceptance", "0.5"), "needs --speculative-config"),
        (("M", "--sim-speed", "2"), "unrecognized arguments: --sim-speed"),
        (("M", "-pp", "2"), "--pipeline-parallel-size: .* no pipeline parallel, got 2"),
        (("M", "--data-parallel-size=4"), "--data-parallel-size: .* no data parallel, got 4"),
        (("M", "-sc", "{}"), "--speculative-config/-sc: a method or a model is needed"),
        (("M", "--speculative-config.method", "ngram"), "as one JSON object"),
        (("M", "--spec-method", "ngram"), "--spec-method: give --speculative-config"),
    ],
)
def test_bad_values_are_named(words: tuple[str, ...], complaint: str):
    """The message says which argument, what it was given and what it takes."""
    with pytest.raises(ArgumentsError, match=complaint):
        options(*words)


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        ((), (8192, 1024)),
        (("--sim-gpu", "h100"), (8192, 1024)),
        (("--sim-gpu", "a100"), (2048, 256)),
        (("--sim-gpu", "l40s"), (2048, 256)),
        (("--max-num-batched-tokens", "512"), (512, 512)),
        (("--max-num-seqs", "64"), (8192, 64)),
    ],
)
def test_a_step_is_as_large_as_vllm_makes_it_on_that_gpu(
    words: tuple[str, ...], limits: tuple[int, int]
):
    """8,192 tokens and 1,024 sequences from 70 GiB on, A100 excepted; sequences fit into tokens."""
    asked = options("M-14B", *words)
    assert (asked.max_num_batched_tokens, asked.max_num_seqs) == limits
    assert "max_num_seqs" not in dict(options("M").given)


def test_without_chunked_prefill_a_step_holds_the_longest_prompt():
    """40,960 tokens by default for Qwen3, the length where one is asked for; less is refused."""
    whole = ("--no-enable-chunked-prefill",)
    assert options("M-14B", *whole).max_num_batched_tokens == 40_960
    assert options("M-14B", *whole, "--max-model-len", "4096").max_num_batched_tokens == 8192
    assert not options("M-14B", *whole).enable_chunked_prefill
    with pytest.raises(ArgumentsError, match=r"\(2048\) is smaller than max_model_len \(4096\)"):
        options("M", *whole, "--max-model-len", "4096", "--max-num-batched-tokens", "2048")


def test_tensor_parallel_divides_the_heads():
    """In vLLM's words: 40 heads on 3 GPUs, 9 heads on 2."""
    assert options("M-14B", "-tp", "8").tensor_parallel_size == 8
    heads = r"attention heads \({}\) must be divisible by tensor parallel size \({}\)\."
    with pytest.raises(ArgumentsError, match=heads.format(40, 3)):
        options("M-14B", "-tp", "3")
    with pytest.raises(ArgumentsError, match=heads.format(9, 2)):
        options("SmolLM2-135M", "-tp", "2")


def test_one_pipeline_stage_is_what_there_is():
    """A suite may say so."""
    assert options("M", "-pp", "1", "--data-parallel-size", "1").model == "M"


def test_speculation_is_read_and_shown():
    """Under both names of the argument; the log shows the JSON as an object."""
    text = '{"method": "ngram", "num_speculative_tokens": 3}'
    asked = options("M", "-sc", text, "--sim-acceptance", "0.25")
    assert asked.speculation is not None
    assert (asked.speculation.method, asked.speculation.tokens) == ("ngram", 3)
    assert asked.speculation.rate == 0.25
    assert options("M", f"--speculative_config={text}").speculation is not None
    shown = dict(asked.given)["speculative_config"]
    assert shown == {"method": "ngram", "num_speculative_tokens": 3}


def test_a_draft_model_takes_slots_of_a_step():
    """One a sequence: 8,192 less 1,024, as the H200's log has it; n-grams take none."""
    draft = '{"model": "Qwen3-0.6B", "num_speculative_tokens": 4}'
    lookup = '{"method": "ngram", "num_speculative_tokens": 4}'
    assert options("M-14B", "-sc", draft).max_scheduled_tokens == 7168
    assert options("M-14B", "-sc", lookup).max_scheduled_tokens == 8192
    with pytest.raises(ArgumentsError, match="leaves no slot"):
        options("M-14B", "-sc", draft, "--max-num-batched-tokens", "1024")


@pytest.mark.parametrize(
    ("words", "ahead"),
    [
        ((), True),
        (("--no-async-scheduling",), False),
        (("--async-scheduling",), True),
        (("-sc", '{"method": "eagle", "num_speculative_tokens": 2}'), True),
        (("-sc", '{"method": "mtp", "num_speculative_tokens": 2}'), True),
        (("-sc", '{"method": "ngram", "num_speculative_tokens": 2}'), False),
        (("-sc", '{"model": "Qwen3-0.6B", "num_speculative_tokens": 2}'), False),
        (("-sc", '{"model": "Q", "num_speculative_tokens": 2}', "--async-scheduling"), True),
    ],
)
def test_steps_are_scheduled_ahead_where_vllm_does_it(words: tuple[str, ...], *, ahead: bool):
    """By default without speculation and with heads of the target; a draft model on request."""
    assert options("M-14B", *words).async_scheduling is ahead


def test_n_grams_cannot_be_scheduled_ahead():
    """Refused in vLLM's words: the look-up needs the tokens of the step that runs."""
    lookup = '{"method": "ngram", "num_speculative_tokens": 4}'
    with pytest.raises(ArgumentsError, match="async scheduling is only supported with EAGLE/MTP"):
        options("M", "-sc", lookup, "--async-scheduling")


def test_faults_add_up():
    """Each of the arguments is one."""
    asked = options("M", "--sim-fault", "crash@20", "--sim-fault", "error=429@1/10")
    assert asked.faults == (parse_fault("crash@20"), parse_fault("error=429@1/10"))
    assert all(isinstance(fault, Fault) for fault in asked.faults)
    assert options("M").faults == ()


def test_the_engine_is_in_the_catalog_and_simulated():
    """Its results must never meet a real baseline; it needs no GPU."""
    assert ENGINES["sim"] is ENGINE
    assert (ENGINE.simulated, ENGINE.managed, ENGINE.uses_gpu) == (True, True, False)


def test_the_command_has_the_specs_arguments_and_the_key_in_the_environment():
    """The key is no argument: arguments are visible to every user of the host."""
    spec = sim("base", "Qwen/Qwen3-14B", "--slowdown", "1.1")
    place = Place(None, "/models/q-14b", "127.0.0.1", 8123, api_key="secret")
    command = ENGINE.command(spec, place)
    assert command.argv[1:] == (
        *("-P", "-m", "pytest_llmperf.engines.sim", "/models/q-14b", "--slowdown", "1.1"),
        *("--host", "127.0.0.1", "--port", "8123"),
    )
    assert command.environment == {"VLLM_API_KEY": "secret"}


@pytest.mark.parametrize(
    ("model", "arguments", "complaint"),
    [
        ("M", ("--slowdown", "fast"), "server 'base' .*--slowdown: invalid value: 'fast'"),
        ("M", ("--api-key", "k"), "take --api-key out"),
        ("/no/such/folder", (), "no model folder /no/such/folder; .*--llmperf-model"),
    ],
)
def test_what_would_fail_is_refused_before_anything_starts(
    model: str, arguments: tuple[str, ...], complaint: str
):
    """The message names the server and what to do."""
    spec = sim("base", model, *arguments)
    with pytest.raises(SpecError, match=complaint):
        ENGINE.check(spec, Place(None, model, "127.0.0.1", 8123))
