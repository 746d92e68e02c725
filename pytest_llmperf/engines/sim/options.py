"""The command line: vLLM's arguments that mean something here, and the simulation's own.

Every other argument of ``vllm serve`` is accepted, and shown in the log as vLLM shows it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_llmperf.engines.sim import values
from pytest_llmperf.engines.sim.gpus import GPUS
from pytest_llmperf.engines.sim.shapes import shape_of
from pytest_llmperf.engines.sim.speculation import read_speculation, scheduled_ahead
from pytest_llmperf.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_llmperf.engines.sim.faults import Fault
    from pytest_llmperf.engines.sim.speculation import Speculation

DESCRIPTION = """\
SIMULATED. Serves vLLM's HTTP surface from a small model of an engine: no GPU, no weights, no
tokenizer. Its times are computed, its texts are filler. What is measured against it says
something about the measuring, never about a model, a GPU or a version of vLLM.
"""
EPILOG = "Every other argument of `vllm serve` is accepted, shown in the log and has no effect."
DEFAULT_GPU = "h200"
LARGE_BATCH, LARGE_SEQS = 8192, 1024
SMALL_BATCH, SMALL_SEQS = 2048, 256
"""vLLM's defaults for the API server, of ``max_num_batched_tokens`` and ``max_num_seqs``."""


KEY = "VLLM_API_KEY"


class ArgumentsError(UsageError):
    """A command line that cannot be."""


@dataclass(frozen=True, slots=True)
class SimOptions:
    """What was asked for. Names and meanings are vLLM's, then those of ``--sim-*``.

    ``given`` is what differs from the defaults, as vLLM's log shows it.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    served_model_name: tuple[str, ...] = ()
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    max_model_len: int | None = None
    max_num_seqs: int = LARGE_SEQS
    max_num_batched_tokens: int = LARGE_BATCH
    enable_chunked_prefill: bool = True
    gpu_memory_utilization: float = 0.92
    block_size: int = 16
    num_gpu_blocks_override: int | None = None
    tensor_parallel_size: int = 1
    enforce_eager: bool = False
    enable_prefix_caching: bool = True
    enable_prompt_tokens_details: bool = False
    disable_uvicorn_access_log: bool = False
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    speculation: Speculation | None = None
    async_scheduling: bool = True
    gpu: str = DEFAULT_GPU
    interconnect: str | None = None
    faults: tuple[Fault, ...] = ()
    slowdown: float = 1.0
    step_ms: float | None = None
    prefill_us_per_token: float | None = None
    kv_tokens: int | None = None
    startup_s: float = 0.0
    launch_noise: float = 0.002
    replay_noise: float = 0.003
    noise_seed: int | None = None
    given: tuple[tuple[str, object], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names that requests may ask for; the first is the one in answers and metrics."""
        return self.served_model_name or (self.model,)

    @property
    def max_scheduled_tokens(self) -> int:
        """Tokens that a step computes at most: a draft model needs slots of its own."""
        slots = self.speculation.slots if self.speculation else 0
        return self.max_num_batched_tokens - slots * self.max_num_seqs


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> SimOptions:
    """Read the words after the command; raise ArgumentsError with vLLM-like text.

    ``environment``: ``VLLM_API_KEY`` is the key, as for vLLM. ``--help`` prints and exits.
    """
    words = [values.dashed(word) for word in arguments]
    model = words.pop(0) if words and not words[0].startswith("-") else None
    parser = build_parser()
    found, rest = parser.parse_known_args(words)
    model = model or found.model
    if not model:
        parser.error("the following arguments are required: MODEL")
    fields = {name: value for name, value in vars(found).items() if name != "model"}
    given = _given(parser, fields)
    try:
        unknown = _unknown(rest)
        _require_one_engine(fields)
        _resolve(fields, model)
        options = SimOptions(
            model=model,
            api_keys=tuple(fields.pop("api_key") or filter(None, [environment.get(KEY)])),
            given=tuple({"model_tag": model, **given, "model": model, **unknown}.items()),
            **fields,
        )
        _check(options)
    except ValueError as error:
        parser.error(str(error))
    return options


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of everything but MODEL, which comes first."""
    parser = _Parser(
        prog="pytest-llmperf sim",
        usage="pytest-llmperf sim MODEL [arguments of vllm serve] [--sim-* ...] [--slowdown X]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_vllm_arguments(parser)
    _add_simulation_arguments(parser)
    return parser


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would exit, so that a suite's arguments can be checked too."""

    def error(self, message: str) -> NoReturn:
        raise ArgumentsError(f"error: {message}")


def _given(parser: argparse.ArgumentParser, fields: Mapping[str, Any]) -> dict[str, object]:
    """Return what differs from the defaults, as vLLM's log shows it; never a key."""
    shown: dict[str, object] = {}
    for name, value in fields.items():
        if value != parser.get_default(name) and name != "api_key":
            shown[name] = list(value) if isinstance(value, tuple) else value
    if "faults" in shown:
        shown["faults"] = [repr(fault) for fault in fields["faults"]]
    if "speculative_config" in shown:
        try:
            shown["speculative_config"] = json.loads(fields["speculative_config"])
        except ValueError:
            del shown["speculative_config"]  # refused where it is read
    return shown


def _unknown(rest: Sequence[str]) -> dict[str, object]:
    """Return vLLM's arguments without effect here; raise ValueError for what is none."""
    unknown = values.others_of(rest)
    for name in unknown:
        shown = f"--{name.replace('_', '-')}"
        if name.startswith(("sim_", "slowdown")):  # vLLM's are accepted, ours are known
            raise ValueError(f"unrecognized arguments: {shown} (see --help)")
        if name.startswith(("speculative_config.", "spec_")):
            raise ValueError(f"{shown}: give --speculative-config as one JSON object")
    return unknown


def _require_one_engine(fields: dict[str, Any]) -> None:
    """Refuse kinds of parallelism that are not simulated."""
    for kind in ("pipeline", "data"):
        size = fields.pop(f"{kind}_parallel_size")
        if size > 1:
            raise ValueError(
                f"argument --{kind}-parallel-size: the simulated engine has one engine with "
                f"tensor parallel and no {kind} parallel, got {size} (1)"
            )


def _resolve(fields: dict[str, Any], model: str) -> None:
    """Replace what was asked for by what it comes to: defaults that depend on other values."""
    gpu = GPUS[fields["gpu"]]
    shape = shape_of(model)
    fields["served_model_name"] = tuple(fields["served_model_name"])
    fields["faults"] = tuple(fields["faults"])
    seqs, batch = fields["max_num_seqs"], fields["max_num_batched_tokens"]
    if batch is None:
        batch = LARGE_BATCH if gpu.large else SMALL_BATCH
        if not fields["enable_chunked_prefill"]:
            batch = max(batch, fields["max_model_len"] or shape.max_positions)
    if seqs is None:
        seqs = min(LARGE_SEQS if gpu.large else SMALL_SEQS, batch)
    fields["max_num_seqs"], fields["max_num_batched_tokens"] = seqs, batch
    text, acceptance = fields.pop("speculative_config"), fields.pop("acceptance")
    if text is not None:
        try:
            fields["speculation"] = read_speculation(text, model, acceptance)
        except ValueError as error:
            raise ValueError(f"argument --speculative-config/-sc: {error}") from None
    elif acceptance is not None:
        raise ValueError("argument --sim-acceptance: needs --speculative-config")
    ahead = scheduled_ahead(fields.get("speculation"), asked=fields["async_scheduling"])
    fields["async_scheduling"] = ahead


def _check(options: SimOptions) -> None:
    """Raise ValueError for values that do not go together, in vLLM's words where it has some."""
    batch, seqs = options.max_num_batched_tokens, options.max_num_seqs
    heads, gpus = shape_of(options.model).heads, options.tensor_parallel_size
    length = options.max_model_len or shape_of(options.model).max_positions
    if heads % gpus:
        raise ValueError(
            f"Total number of attention heads ({heads}) must be divisible by tensor parallel size "
            f"({gpus})."
        )
    if not options.enable_chunked_prefill and batch < length:
        raise ValueError(
            f"max_num_batched_tokens ({batch}) is smaller than max_model_len ({length}). This "
            "effectively limits the maximum sequence length to max_num_batched_tokens and makes "
            "vLLM reject longer sequences. Please increase max_num_batched_tokens or decrease "
            "max_model_len."
        )
    if batch < seqs:
        raise ValueError(
            f"max_num_batched_tokens ({batch}) must be greater than or equal to max_num_seqs "
            f"({seqs})."
        )
    if options.max_scheduled_tokens < 1:
        raise ValueError(
            f"max_num_batched_tokens ({batch}) leaves no slot beside those of a draft model, one a "
            f"sequence (max_num_seqs {seqs}). Increase the first or decrease the second."
        )
    GPUS[options.gpu].interconnect(options.interconnect)


def _add_vllm_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("arguments of vLLM with an effect here")
    flag = argparse.BooleanOptionalAction
    count, human = values.count, values.human
    add = group.add_argument
    add("--model", metavar="MODEL", help="the model, where it is not the first word")
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=values.port, default=8000, help="port to listen on (default: %(default)s)")
    add("--served-model-name", nargs="+", default=(), help="name(s) of the model in requests")
    add("--api-key", nargs="+", default=(), help="key(s) for /v1 (default: $VLLM_API_KEY)")
    add("--max-model-len", type=values.length, help="longest prompt and answer, in tokens")
    of_gpu = "(default: vLLM's for the GPU)"
    add("--max-num-seqs", type=count, help=f"requests running at once {of_gpu}")
    add("--max-num-batched-tokens", type=human, help=f"tokens computed a step {of_gpu}")
    add("--enable-chunked-prefill", action=flag, default=True, help="else prompts run whole")
    add("--gpu-memory-utilization", type=values.share, default=0.92, help="share of it used")
    add("--block-size", type=count, default=16, help="tokens a KV block (default: %(default)s)")
    add("--num-gpu-blocks-override", type=count, help="KV blocks, whatever the memory is")
    add("--tensor-parallel-size", "-tp", type=count, default=1, help="GPUs that share each layer")
    add("--pipeline-parallel-size", "-pp", type=count, default=1, help="1 and nothing else")
    add("--data-parallel-size", "-dp", type=count, default=1, help="1 and nothing else")
    add("--enforce-eager", action=flag, default=False, help="the host launches every layer")
    ahead = "arrivals join the next step but one (default: not with ngram, draft_model)"
    add("--async-scheduling", action=flag, help=ahead)
    add("--enable-prefix-caching", action=flag, default=True, help="reuses KV blocks")
    add("--enable-prompt-tokens-details", action=flag, default=False, help="in each usage")
    add("--disable-uvicorn-access-log", action=flag, default=False, help="no line a request")
    add("--quantization", "-q", help="awq, gptq, fp8 or int8 (default: from the model's name)")
    add("--kv-cache-dtype", default="auto", help="fp8 halves the size of a token's KV")
    add("--speculative-config", "-sc", metavar="JSON", help="ngram, draft_model, eagle or mtp")


def _add_simulation_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the simulation's own arguments")
    add, amount, positive = group.add_argument, values.amount, values.positive
    own = "%(default)s"
    add("--slowdown", type=positive, default=1.0, metavar="X", help="multiplies every step time")
    add("--sim-gpu", dest="gpu", type=str.lower, choices=tuple(GPUS), default=DEFAULT_GPU, help=own)
    links = ("nvlink", "pcie")
    add("--sim-interconnect", dest="interconnect", choices=links, help="(default: the GPU's)")
    of_method = "chance of a draft token (default: the method's)"
    add("--sim-acceptance", dest="acceptance", type=values.chance, metavar="P", help=of_method)
    fault = "what goes wrong: crash@20, error=429@1/10, ... (repeatable)"
    add("--sim-fault", dest="faults", type=values.fault, action="append", default=[], help=fault)
    add("--sim-step-ms", dest="step_ms", type=positive, help="a step (default: the GPU's)")
    prefill = "prefill_us_per_token"
    add("--sim-prefill-us-per-token", dest=prefill, type=amount, help="(default: the GPU's)")
    add("--sim-kv-tokens", dest="kv_tokens", type=values.human, help="(default: from memory)")
    add("--sim-startup-s", dest="startup_s", type=amount, default=0.0, help=f"load time ({own})")
    sd = f"sd of log(step time): ({own})"
    add("--sim-launch-noise", dest="launch_noise", type=amount, default=0.002, help=sd)
    add("--sim-replay-noise", dest="replay_noise", type=amount, default=0.003, help=sd)
    add("--sim-noise-seed", dest="noise_seed", type=int, help="(default: new at every launch)")
