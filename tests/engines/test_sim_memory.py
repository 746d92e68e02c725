"""The memory budget, against the logs of real servers and published figures."""

from __future__ import annotations

import pytest

from pytest_llmperf.engines.sim.memory import Budget, StartError, plan_memory
from pytest_llmperf.engines.sim.options import parse
from pytest_llmperf.engines.sim.shapes import shape_of

DRAFT = '{"model": "qwen3-0.6b", "num_speculative_tokens": 4}'
LOOKUP = '{"method": "ngram", "num_speculative_tokens": 4}'


def budget(*words: str) -> Budget:
    asked = parse(words, {})
    return plan_memory(shape_of(asked.model), asked)


@pytest.mark.parametrize(
    ("words", "weights_gib", "kv_gib", "kv_tokens"),
    [
        (("/models/qwen3-14b",), 27.52, 99.27, 650_560),
        (("/models/qwen3-14b-awq",), 9.62, 117.17, 767_872),
        (("/models/qwen3-14b", "-sc", DRAFT), 28.63, 94.61, 364_720),
        (("/models/qwen3-14b", "-tp", "2"), 13.88, 113.2, 1_483_760),
    ],
)
def test_the_budget_is_the_real_h200s(
    words: tuple[str, ...], weights_gib: float, kv_gib: float, kv_tokens: int
):
    """Within 1 % of what vLLM 0.25.1 logged for the same servers, without their own constants."""
    found = budget(*words, "--max-model-len", "8192")
    assert found.weights_gib == pytest.approx(weights_gib, rel=1e-2)
    assert found.kv_gib == pytest.approx(kv_gib, rel=2e-3)
    assert found.kv_tokens == pytest.approx(kv_tokens, rel=2e-3)
    assert found.max_concurrency == pytest.approx(kv_tokens / 8192, rel=2e-3)


@pytest.mark.parametrize(
    ("model", "kv_tokens", "concurrency"),
    [("Qwen/Qwen3-14B", 72_064, 1.76), ("Qwen/Qwen3-14B-AWQ", 191_056, 4.66)],
)
def test_the_budget_is_the_published_l40s(model: str, kv_tokens: int, concurrency: float):
    """Within 5 %, at 0.9 of the memory, which was vLLM's default then."""
    found = budget(model, "--sim-gpu", "l40s", "--gpu-memory-utilization", "0.9")
    assert found.kv_tokens == pytest.approx(kv_tokens, rel=0.05)
    assert found.max_concurrency == pytest.approx(concurrency, rel=0.05)


def test_a_larger_step_takes_from_the_cache():
    """8,192 tokens more, 2 * (3 * 17,408 + 4 * 5,120) bytes each: 1.109 GiB."""
    small, large = (
        budget("M-14B", "--max-num-batched-tokens", str(tokens)) for tokens in (8192, 16_384)
    )
    assert small.kv_gib - large.kv_gib == pytest.approx(1.109, abs=1e-3)


def test_verifying_takes_from_the_cache_as_many_sequences_as_may_run():
    """Five copies of logits: 5 * 4 bytes * 151,936 * 768 sequences less are 2.17 GiB."""
    many, few = (
        budget("M-14B", "-sc", LOOKUP, "--max-num-seqs", str(seqs)) for seqs in (1024, 256)
    )
    assert few.kv_gib - many.kv_gib == pytest.approx(2.17, abs=0.01)
    assert many.weights_gib == budget("M-14B").weights_gib


def test_a_head_shares_the_targets_embeddings():
    """EAGLE adds a layer, 330e6 parameters in 2 bytes, and its keys and values: 41 for 40."""
    eagle = '{"method": "eagle3", "model": "E", "num_speculative_tokens": 3}'
    base, headed = budget("M-14B"), budget("M-14B", "-sc", eagle)
    assert headed.weights_gib - base.weights_gib == pytest.approx(0.615, abs=1e-3)
    a_token = headed.kv_gib * (1 << 30) / headed.kv_tokens
    assert a_token == pytest.approx(160 * 1024 * 41 / 40, rel=1e-4)


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


def test_the_kv_cache_can_be_set():
    """In tokens, in whole blocks; a length that was not asked for is cut to it."""
    found = budget("M-14B", "--sim-kv-tokens", "100")
    assert (found.kv_tokens, found.max_model_len) == (96, 96)
    assert budget("M-14B", "--num-gpu-blocks-override", "10").kv_tokens == 160


def test_what_does_not_fit_is_refused_in_vllms_words():
    """No memory for the cache, or a length that the cache cannot hold."""
    with pytest.raises(StartError, match="No available memory for the cache blocks"):
        budget("M-14B", "--gpu-memory-utilization", "0.2")
    with pytest.raises(StartError, match="No available memory for the cache blocks"):
        budget("M-32B", "--sim-gpu", "l40s")
    with pytest.raises(StartError, match="estimated maximum model length is 96"):
        budget("M-14B", "--sim-kv-tokens", "100", "--max-model-len", "200")


def test_tensor_parallel_makes_room_for_what_one_gpu_has_not():
    """61 GiB of weights: one L40S of 44 GiB has no room for them, two have."""
    with pytest.raises(StartError):
        budget("M-32B", "--sim-gpu", "l40s", "-tp", "1")
    assert budget("M-32B", "--sim-gpu", "l40s", "-tp", "2").kv_tokens > 0
