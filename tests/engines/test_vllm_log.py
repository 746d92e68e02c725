from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmperf.engines._vllm_log import read_facts, read_failure, read_phase
from pytest_llmperf.model.launch import LaunchFacts

LOGS = Path(__file__).parents[1] / "data" / "logs"


def log(name: str) -> str:
    return (LOGS / f"{name}.log").read_bytes().decode()


def test_a_cold_start_on_an_h200():
    """Every figure that vLLM 0.25.1 tells about Qwen3-14B."""
    assert read_facts(log("h200")) == LaunchFacts(
        engine_version="0.25.1",
        weights_gib=27.52,
        kv_gib=99.27,
        kv_tokens=650_560,
        graphs_gib=0.90,
        max_concurrency=79.41,
        max_model_len=8192,
        phases={
            "boot": 42.0,
            "load_weights": 2.601,
            "compile": 30.53,
            "capture_graphs": 6.0,
            "init_engine": 124.97,
        },
        cold=True,
    )


def test_quantised_weights_leave_more_kv():
    """The same of Qwen3-14B-AWQ."""
    facts = read_facts(log("h200-awq"))
    assert (facts.weights_gib, facts.kv_gib, facts.kv_tokens) == (9.62, 117.17, 767_872)
    assert facts.max_concurrency == 93.73


def test_a_draft_models_lengths_and_compilation():
    """The target's context counts, not the draft's 40,960; both compilations are summed."""
    facts = read_facts(log("h200-draft"))
    assert facts.max_model_len == 8192
    assert facts.weights_gib == 28.63
    assert (facts.kv_gib, facts.kv_tokens) == (94.61, 364_720)
    assert facts.phases["compile"] == 51.03  # 30.70 + 20.33
    assert facts.cold is True


def test_tensor_parallel_figures_are_per_gpu():
    """Two workers tell their weights and graphs; KV tokens are the server's."""
    facts = read_facts(log("h200x2-tp2"))
    assert facts.weights_gib == 13.88
    assert facts.graphs_gib == 0.87
    assert (facts.kv_gib, facts.kv_tokens) == (113.2, 1_483_760)
    assert facts.max_concurrency == 181.12
    assert facts.phases["load_weights"] == 1.74  # the slower worker
    assert facts.phases["capture_graphs"] == 6.0  # at the same time, not one after the other


def test_a_cpu_server():
    """0.32.0 on a CPU tells KV memory in other words, and no weights in memory."""
    assert read_facts(log("cpu")) == LaunchFacts(
        engine_version="0.32.0",
        weights_gib=None,
        kv_gib=2.0,
        kv_tokens=93_184,
        graphs_gib=None,
        max_concurrency=45.5,
        max_model_len=2048,
        phases={"boot": 13.0, "load_weights": 0.76, "init_engine": 6.22},
        cold=False,
    )


@pytest.mark.parametrize(
    "text",
    ["", "\r\n\r", "hello", "(EngineCore pid=1) INFO 11-30 08:00:00 [x.py:1] "],
)
def test_a_log_that_says_nothing(text):
    """What is not said is None."""
    assert read_facts(text) == LaunchFacts()
    assert read_phase(text) is None


def test_a_long_line_is_read_in_part():
    """A configuration dump of a megabyte costs nothing and says nothing."""
    assert read_facts("x" * 1_000_000 + " KV cache size: 5 tokens") == LaunchFacts()


@pytest.mark.parametrize(
    ("line", "cold"),
    [
        ("Compiling a graph for compile range (1, 8192) takes 13.99 s", True),
        ("Cache the graph for dynamic shape for later use", True),
        ("Directly load the compiled graph(s) for compile range (1, 8192) from the cache", False),
        ("Directly load AOT compilation from path ~/.cache/vllm/x/model", False),
        ("Enforce eager set, disabling torch.compile", False),
        ("torch.compile took 5.20 s in total", None),
    ],
)
def test_a_launch_is_cold_where_it_compiled(line, cold):
    """A graph from the cache, or no graph at all, is no compilation."""
    assert (
        read_facts(f"(EngineCore pid=1) INFO 11-30 08:00:00 [backends.py:296] {line}\n").cold
        is cold
    )


def test_one_compiled_graph_makes_a_cold_launch():
    """A cache that holds a part only does not make it warm."""
    text = "Directly load the compiled graph(s)\nCompiling a graph for range (1, 2) takes 1 s\n"
    assert read_facts(text).cold is True


def test_data_parallel_engines_are_summed():
    """Each engine has a cache of its own; the scarcest GPU sets its size."""
    text = "\n".join(
        f"(EngineCore_DP{rank} pid={rank + 5}) INFO 11-30 08:00:00 [a.py:1] {words}"
        for rank, tokens in ((0, "1,000"), (1, "900"))
        for words in (
            f"Available KV cache memory: {10 - rank}.50 GiB",
            f"GPU KV cache size: {tokens} tokens",
            "Maximum concurrency for 100 tokens per request: 9.50x",
        )
    )
    facts = read_facts(text)
    assert (facts.kv_tokens, facts.max_concurrency, facts.kv_gib) == (1900, 19.0, 9.5)


def test_an_engine_that_repeats_itself_counts_once():
    """Older versions print the cache's size once a worker."""
    text = "INFO 11-30 08:00:00 [a.py:1] GPU KV cache size: 1,000 tokens\n" * 4
    assert read_facts(text).kv_tokens == 1000


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("model weights take 27.52GiB; non_torch_memory takes 0.1GiB", "weights_gib", 27.52),
        ("Loading model weights took 27.52 GB", "weights_gib", 27.52),
        ("reserved for KV Cache is 29.15GiB", "kv_gib", 29.15),
        ("free memory 44.1 GiB, reserved 11.0 GiB memory for KV Cache as", "kv_gib", 11.0),
        ("vLLM API server version 0.9.2", "engine_version", "0.9.2"),
    ],
)
def test_other_versions_words(line, field, value):
    """Wordings of older versions, and of a fixed cache size."""
    assert getattr(read_facts(line), field) == value


def test_colours_do_not_hide_the_words():
    """A log may be coloured."""
    line = (
        "\x1b[0;36m(EngineCore pid=7)\x1b[0;0m INFO 11-30 08:00:00 [a.py:1] KV cache size: 9 tokens"
    )
    assert read_facts(line).kv_tokens == 9


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bad-argument", "vllm: error: unrecognized arguments: --frobnicate 3"),
        (
            "bad-value",
            (
                "vllm serve: error: argument --dtype: invalid choice: 'float7' (choose from 'auto', "
                "'bfloat16', 'float', 'float16', 'float32', 'half')"
            ),
        ),
        (
            "bad-model",
            (
                "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
                "'namespace/repo_name': '/no/such/model'. Use `repo_type` argument if needed."
            ),
        ),
        ("port-in-use", "OSError: [Errno 98] Address already in use"),
        (
            "engine-no-weights",
            "RuntimeError: Cannot find any model weights with `/models/noweights`",
        ),
        (
            "worker-killed",
            "Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.",
        ),
    ],
)
def test_the_root_cause_of_a_real_death(name, reason):
    """In the words of vLLM 0.32.0, not 'Engine core initialization failed. See root cause above'."""
    assert read_failure(log(f"fail-{name}")) == reason


@pytest.mark.parametrize(
    ("name", "start"),
    [
        (
            "kv-cache-too-small",
            (
                "ValueError: To serve at least one request with the model's max seq len (8192), (0.18 "
                "GiB KV cache is needed, which is larger than the available KV cache memory (0.01 GiB)"
            ),
        ),
        (
            "max-len-too-large",
            (
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
                "Value error, User-specified max_model_len (100000) is greater than the derived"
            ),
        ),
    ],
)
def test_a_long_reason_is_cut(name, start):
    """The reason comes with the line that its message goes on with, each of bounded length."""
    reason = read_failure(log(f"fail-{name}"))
    assert reason.startswith(start)
    assert max(map(len, reason.splitlines())) <= 400


OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def test_the_first_failing_worker_is_believed():
    """Other workers, the engine and the server fail of the first one's failure."""
    text = f"""\
(Worker_TP0 pid=5) ERROR 11-30 08:00:01 [a.py:1] Traceback (most recent call last):
(Worker_TP0 pid=5) ERROR 11-30 08:00:01 [a.py:1] {OUT_OF_MEMORY}
(Worker_TP1 pid=6) ERROR 11-30 08:00:02 [a.py:1] torch.distributed.DistBackendError: NCCL error
(EngineCore pid=4) ERROR 11-30 08:00:03 [core.py:1] Exception: WorkerProc initialization failed \
due to an exception in a background process. See stack trace for root cause.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
"""
    assert read_failure(text) == OUT_OF_MEMORY


def test_an_earlier_complaint_of_another_process_is_passed_over():
    """An optional import that failed in the server is not why the engine died."""
    text = f"""\
(APIServer pid=3) WARNING 11-30 08:00:01 [a.py:1] Traceback (most recent call last):
(APIServer pid=3) WARNING 11-30 08:00:01 [a.py:1] ModuleNotFoundError: No module named 'x'
(EngineCore pid=4) ERROR 11-30 08:00:02 [core.py:1] {OUT_OF_MEMORY}
(APIServer pid=3) RuntimeError: Engine core initialization failed. See root cause above.
"""
    assert read_failure(text) == OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", None),
        ("\r\n \n", None),
        ("bash: line 1: vllm: command not found\n", "bash: line 1: vllm: command not found"),
        ("loading\nSegmentation fault (core dumped)\nbye\n", "Segmentation fault (core dumped)"),
        ("INFO 11-30 08:00:00 [a.py:1] fine\nERROR 11-30 08:00:00 [a.py:1] not fine\n", "not fine"),
        ("ValueError: a\nKeyboardInterrupt\n", "ValueError: a"),
        ("Traceback (most recent call last):\nKeyboardInterrupt\n", "KeyboardInterrupt"),
        ("\n".join("abcdefg"), "c\nd\ne\nf\ng"),
        ('bye\nINFO:     127.0.0.1:5 - "GET /health HTTP/1.1" 200 OK\n', "bye"),
    ],
)
def test_what_is_left_when_there_is_no_cause(text, reason):
    """Errors of shell and loader, logged errors, and in the end the last five lines."""
    assert read_failure(text) == reason


@pytest.mark.parametrize(
    ("until", "phase"),
    [
        ("Initializing a V1 LLM engine", "starting the engine"),
        ("Loading model from scratch", "loading weights"),
        ("Model loading took", "measuring memory"),
        ("Dynamo bytecode", "compiling"),
        ("Maximum concurrency", "warming up"),
        ("Capturing CUDA graphs (FULL):   0%", "capturing graphs"),
        ("Graph capturing finished", "warming up"),
        ("Application startup complete", "starting the HTTP server"),
    ],
)
def test_the_phase_is_what_the_log_last_named(until, phase):
    """A real log, read up to some line."""
    text = log("h200")
    assert read_phase(text[: text.index(until) + len(until)]) == phase


def test_the_draft_models_phase():
    """Loading a second model is a phase of its own."""
    text = log("h200-draft")
    assert read_phase(text[: text.index("Model loading took")]) == "loading the draft model"
