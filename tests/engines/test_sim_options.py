"""The command line and the memory budget, against the H200 logs of samples/."""

from __future__ import annotations

import pytest

from pytest_llmperf.engines import ENGINES, Place
from pytest_llmperf.engines.sim import ENGINE, sim
from pytest_llmperf.engines.sim.memory import Budget, StartError, plan_memory
from pytest_llmperf.engines.sim.options import ArgumentsError, SimOptions, parse
from pytest_llmperf.engines.sim.shapes import shape_of
from pytest_llmperf.errors import SpecError


def options(*words: str) -> SimOptions:
    return parse(words, {})


def budget(*words: str) -> Budget:
    asked = options(*words)
    return plan_memory(shape_of(asked.model), asked)


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
        (("M", "--max-num-batched-tokens", "100"), "greater than or equal to max_num_seqs"),
    ],
)
def test_bad_values_are_named(words: tuple[str, ...], complaint: str):
    """The message says which argument, what it was given and what it takes."""
    with pytest.raises(ArgumentsError, match=complaint):
        options(*words)


@pytest.mark.parametrize(
    ("model", "weights_gib", "kv_gib", "kv_tokens"),
    [
        ("/models/qwen3-14b", 27.52, 99.27, 650_560),
        ("/models/qwen3-14b-awq", 9.62, 117.17, 767_872),
    ],
)
def test_the_budget_is_the_real_h200s(
    model: str, weights_gib: float, kv_gib: float, kv_tokens: int
):
    """Within 0.1 % of what vLLM 0.25.1 logged for the same models on an H200."""
    found = budget(model, "--max-model-len", "8192")
    assert found.weights_gib == pytest.approx(weights_gib, rel=1e-3)
    assert found.kv_gib == pytest.approx(kv_gib, rel=1e-3)
    assert found.kv_tokens == pytest.approx(kv_tokens, rel=1e-3)
    assert found.max_concurrency == pytest.approx(kv_tokens / 8192, rel=1e-3)


def test_quantisation_and_parallelism_change_the_weights():
    """FP8 halves the layers, not the embeddings; two GPUs halve all of it."""
    base = budget("Qwen/Qwen3-14B")
    assert budget("Qwen/Qwen3-14B-FP8").weights_gib == pytest.approx(15.2, abs=0.05)
    assert budget("Qwen/Qwen3-14B", "-tp", "2").weights_gib == base.weights_gib / 2
    assert budget("Qwen/Qwen3-14B", "--quantization", "awq").weights_gib == pytest.approx(
        9.62, 1e-3
    )
    eight_bits = budget("Qwen/Qwen3-14B", "--kv-cache-dtype", "fp8")
    assert eight_bits.kv_tokens == pytest.approx(2 * base.kv_tokens, rel=1e-4)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "SmolLM2-135M"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Qwen3-8B"),
        ("/models/qwen3-0.6b/", "Qwen3-0.6B"),
        ("Qwen/Qwen3-30B-A3B", "Qwen3-32B"),
        ("no-size-said", "Qwen3-14B"),
    ],
)
def test_the_shape_follows_the_size_in_the_name(model: str, family: str):
    """The nearest known one; 14B where the name says nothing."""
    assert shape_of(model).family == family


def test_shapes_have_the_parameters_that_their_names_say():
    """14.77e9 for Qwen3-14B, 160 KiB a token; 134.5e6 for SmolLM2-135M."""
    large, small = shape_of("14B"), shape_of("135M")
    assert large.layer_parameters + large.embedding_parameters == pytest.approx(14.77e9, rel=1e-3)
    assert large.kv_bytes_per_token(2) == 160 * 1024
    assert small.layer_parameters + small.embedding_parameters == pytest.approx(134.5e6, rel=1e-3)


def test_the_kv_cache_can_be_set():
    """In tokens, in whole blocks; a length that was not asked for is cut to it."""
    found = budget("M-14B", "--sim-kv-tokens", "100")
    assert (found.kv_tokens, found.max_model_len) == (96, 96)
    assert budget("M-14B", "--num-gpu-blocks-override", "10").kv_tokens == 160


def test_what_does_not_fit_is_refused_in_vllms_words():
    """No memory for the cache, or a length that the cache cannot hold."""
    with pytest.raises(StartError, match="No available memory for the cache blocks"):
        budget("M-14B", "--gpu-memory-utilization", "0.2")
    with pytest.raises(StartError, match="estimated maximum model length is 96"):
        budget("M-14B", "--sim-kv-tokens", "100", "--max-model-len", "200")


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
