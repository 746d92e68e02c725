"""The log, in vLLM 0.25.1's lines, so that one parser reads both. Each says it is simulated."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Literal

from pytest_llmperf.engines.sim.gpus import GPUS
from pytest_llmperf.engines.sim.memory import GRAPHS_GIB, Budget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_llmperf.engines.sim.options import SimOptions
    from pytest_llmperf.engines.sim.shapes import ModelShape

VERSION = "0.25.1-sim"
SIMULATED = "SIMULATED: no GPU, no weights; times are computed, texts are filler"
Process = Literal["APIServer", "EngineCore"]
API: Process = "APIServer"
CORE: Process = "EngineCore"

LOAD_SHARE, COMPILE_SHARE, GRAPHS_SHARE = 0.1, 0.4, 0.1
"""Shares of the start-up's time, roughly those of the H200 logs in samples/."""


class Log:
    """Writes whole lines at once, unbuffered: what was logged is in the file, come what may."""

    def line(self, process: Process, level: str, source: str, text: str) -> None:
        """Write a line as vLLM's logger does."""
        stamp = time.strftime("%m-%d %H:%M:%S")
        self.raw(f"({process} pid={os.getpid()}) {level} {stamp} [{source}] {text}")

    def info(self, process: Process, source: str, text: str) -> None:
        """Write a line of level INFO."""
        self.line(process, "INFO", source, text)

    def raw(self, text: str) -> None:
        """Write a line as it is. A reader that went away is none of the server's business."""
        try:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
        except (BrokenPipeError, ValueError):
            return

    def banner(self, options: SimOptions) -> None:
        """Write what is starting, and that it is no real server."""
        for text in ("", f"vLLM's surface, version {VERSION}", f"model   {options.model}", ""):
            self.info(API, "api_utils.py:339", text)
        self.line(API, "WARNING", "sim", SIMULATED)
        self.line(API, "WARNING", "sim", f"SIMULATED: {_hardware(options)}")
        self.info(API, "api_utils.py:273", f"non-default args: {dict(options.given)}")

    def configuration(self, options: SimOptions, shape: ModelShape, budget: Budget) -> None:
        """Write how the engine is set up, before anything is loaded."""
        self.info(API, "model.py:619", f"Resolved architecture: simulated, {shape.family}'s shape")
        self.info(API, "model.py:1776", f"Using max model len {budget.max_model_len}")
        if options.enable_chunked_prefill:
            chunk = options.max_num_batched_tokens
            text = f"Chunked prefill is enabled with max_num_batched_tokens={chunk}."
            self.info(API, "scheduler.py:252", text)
        self._async_scheduling(options)
        if options.max_scheduled_tokens < options.max_num_batched_tokens:
            text = (
                f"max_num_scheduled_tokens is set to {options.max_scheduled_tokens} based on the "
                "speculative decoding settings."
            )
            self.line(API, "WARNING", "vllm.py:1648", text)
        if options.enforce_eager:
            eager = "Enforce eager set, disabling torch.compile and CUDAGraphs."
            self.line(API, "WARNING", "vllm.py:1042", eager)
        text = (
            f"Initializing a V1 LLM engine (v{VERSION}) with config: model={options.model!r}, "
            f"speculative_config={_speculation(options)}, max_seq_len={budget.max_model_len}, "
            f"tensor_parallel_size={options.tensor_parallel_size}, "
            f"quantization={options.quantization}, enforce_eager={options.enforce_eager}, "
            f"kv_cache_dtype={options.kv_cache_dtype}, SIMULATED"
        )
        self.info(CORE, "core.py:114", text)
        self.info(CORE, "model_runner.py:281", "Loading model from scratch...")

    def startup(self, options: SimOptions, budget: Budget) -> Iterator[float]:
        """Write the start-up's phases; yields how many seconds to let pass before the next."""
        total = options.startup_s
        load = total * LOAD_SHARE
        yield load
        took = f"Model loading took {budget.weights_gib:.2f} GiB and {load:.6f} seconds"
        self.info(CORE, "model_runner.py:302", took)
        compile_s = 0.0 if options.enforce_eager else total * COMPILE_SHARE
        yield compile_s
        if not options.enforce_eager:
            text = "Directly load the compiled graphs from the cache (SIMULATED)"
            self.info(CORE, "backends.py:378", text)
            self.info(CORE, "monitor.py:53", f"torch.compile took {compile_s:.2f} s in total")
        self._memory(budget)
        graphs = 0.0 if options.enforce_eager else total * GRAPHS_SHARE
        yield graphs
        if not options.enforce_eager:
            text = f"Graph capturing finished in {graphs:.0f} secs, took {GRAPHS_GIB:.2f} GiB"
            self.info(CORE, "model_runner.py:722", text)
        yield total - load - compile_s - graphs
        text = (
            "init engine (profile, create kv cache, warmup model) took "
            f"{total - load:.2f} s (compilation: {compile_s:.2f} s)"
        )
        self.info(CORE, "core.py:337", text)

    def serving(self, host: str, port: int) -> None:
        """Write that requests are taken from now on."""
        self.info(API, "api_server.py:612", "Supported tasks: ['generate']")
        url = f"http://{host}:{port}"
        self.info(API, "api_server.py:616", f"Starting vLLM server on {url}")
        prefix = f"(APIServer pid={os.getpid()}) INFO:     "
        self.raw(f"{prefix}Started server process [{os.getpid()}]")
        self.raw(f"{prefix}Application startup complete.")

    def stopping(self) -> None:
        """Write that the server ends because it was told to."""
        source = "launcher.py:254"
        self.info(API, source, "[shutdown] API server: shutdown triggered mode=abort")
        self.raw(f"(APIServer pid={os.getpid()}) INFO:     Application shutdown complete.")

    def out_of_memory(self, total_gib: float) -> None:
        """Write that the weights do not fit beside what else is in the GPU's memory."""
        message = (
            "CUDA out of memory. Tried to allocate 340.00 MiB. GPU 0 has a total capacity of "
            f"{total_gib:.2f} GiB of which 128.00 MiB is free. (SIMULATED)"
        )
        self.engine_failure(message, "torch.OutOfMemoryError")

    def engine_failure(self, message: str, error: str = "ValueError") -> None:
        """Write why the engine cannot start, in the two places where vLLM does."""
        source = "core.py:1136"
        self.line(CORE, "ERROR", source, "EngineCore failed to start.")
        self.line(CORE, "ERROR", source, f"{error}: {message}")
        cause = "Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        self.raw(f"(APIServer pid={os.getpid()}) RuntimeError: {cause}")

    def model_failure(self, model: str) -> None:
        """Write that ``model`` is neither a repository nor a folder."""
        prefix = f"(APIServer pid={os.getpid()}) "
        for text in (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
            f"  Value error, Invalid repository ID or local directory specified: '{model}'.",
            "Please verify the following requirements:",
            "1. Provide a valid Hugging Face repository ID.",
            "2. Specify a local directory that contains a recognized configuration file.",
        ):
            self.raw(prefix + text)

    def _async_scheduling(self, options: SimOptions) -> None:
        asked = "async_scheduling" in dict(options.given)
        if options.speculation and not options.async_scheduling and not asked:
            text = (
                f"Async scheduling not supported with {options.speculation.method}-based "
                "speculative decoding and will be disabled."
            )
            self.line(API, "WARNING", "vllm.py:1010", text)
        state = "enabled" if options.async_scheduling else "disabled"
        self.info(API, "vllm.py:1042", f"Asynchronous scheduling is {state}.")

    def _memory(self, budget: Budget) -> None:
        text = f"Available KV cache memory: {budget.kv_gib:.2f} GiB"
        self.info(CORE, "gpu_worker.py:538", text)
        text = f"GPU KV cache size: {budget.kv_tokens:,} tokens"
        self.info(CORE, "kv_cache_utils.py:2146", text)
        text = (
            f"Maximum concurrency for {budget.max_model_len:,} tokens per request: "
            f"{budget.max_concurrency:.2f}x"
        )
        self.info(CORE, "kv_cache_utils.py:2147", text)


def _hardware(options: SimOptions) -> str:
    """Return what the times are computed for."""
    if options.step_ms is not None or options.prefill_us_per_token is not None:
        return "a fixed time a step"
    gpu, count = GPUS[options.gpu], options.tensor_parallel_size
    link = f" over {gpu.interconnect(options.interconnect).name}" if count > 1 else ""
    return f"{count} x {gpu.name}{link}"


def _speculation(options: SimOptions) -> str:
    """Return the speculation as vLLM's line of the engine's configuration shows it."""
    asked = options.speculation
    if asked is None:
        return "None"
    return (
        f"SpeculativeConfig(method={asked.method!r}, model={asked.model!r}, "
        f"num_spec_tokens={asked.tokens})"
    )
