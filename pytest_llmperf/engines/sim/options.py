"""The command line: vLLM's arguments that mean something here, and the simulation's own.

Every other argument of ``vllm serve`` is accepted, and shown in the log as vLLM shows it.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from pytest_llmperf.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DESCRIPTION = """\
SIMULATED. Serves vLLM's HTTP surface from a small model of an engine: no GPU, no weights, no
tokenizer. Its times are computed, its texts are filler. What is measured against it says
something about the measuring, never about a model, a GPU or a version of vLLM.
"""
EPILOG = "Every other argument of `vllm serve` is accepted, shown in the log and has no effect."
MULTIPLES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30, "": 1}
HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kmgKMG]?)")


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
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
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
    slowdown: float = 1.0
    step_ms: float = 9.0
    prefill_us_per_token: float = 20.0
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


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> SimOptions:
    """Read the words after the command; raise ArgumentsError with vLLM-like text.

    ``environment``: ``VLLM_API_KEY`` is the key, as for vLLM. ``--help`` prints and exits.
    """
    words = [_dashed(word) for word in arguments]
    model = words.pop(0) if words and not words[0].startswith("-") else None
    parser = build_parser()
    values, others = parser.parse_known_args(words)
    model = model or values.model
    if not model:
        parser.error("the following arguments are required: MODEL")
    unknown = _others(parser, others)
    own = [name for name in unknown if name.startswith(("sim_", "slowdown"))]
    if own:  # vLLM's arguments are accepted whatever they are, ours are known
        parser.error(f"unrecognized arguments: --{own[0].replace('_', '-')} (see --help)")
    if values.max_num_batched_tokens < values.max_num_seqs:
        parser.error(
            f"max_num_batched_tokens ({values.max_num_batched_tokens}) must be greater than or "
            f"equal to max_num_seqs ({values.max_num_seqs})."
        )
    fields = {name: value for name, value in vars(values).items() if name != "model"}
    keys = fields.pop("api_key") or filter(None, [environment.get("VLLM_API_KEY")])
    fields["served_model_name"] = tuple(fields["served_model_name"])
    given = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in fields.items()
        if value != parser.get_default(name)
    }
    shown = {"model_tag": model, **given, "model": model, **unknown}
    return SimOptions(model=model, api_keys=tuple(keys), given=tuple(shown.items()), **fields)


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


def _add_vllm_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("arguments of vLLM with an effect here")
    flag = argparse.BooleanOptionalAction
    add = group.add_argument
    add("--model", metavar="MODEL", help="the model, where it is not the first word")
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=_port, default=8000, help="port to listen on (default: %(default)s)")
    add("--served-model-name", nargs="+", default=(), help="name(s) of the model in requests")
    add("--api-key", nargs="+", default=(), help="key(s) for /v1 (default: $VLLM_API_KEY)")
    add("--max-model-len", type=_length, help="longest prompt and answer, in tokens")
    add("--max-num-seqs", type=_count, default=256, help="requests running at once")
    add("--max-num-batched-tokens", type=_human, default=8192, help="tokens computed a step")
    add("--gpu-memory-utilization", type=_share, default=0.92, help="share of the memory used")
    add("--block-size", type=_count, default=16, help="tokens a KV block (default: %(default)s)")
    add("--num-gpu-blocks-override", type=_count, help="KV blocks, whatever the memory is")
    add("--tensor-parallel-size", "-tp", type=_count, default=1, help="divides the weights")
    add("--enforce-eager", action=flag, default=False, help="no graph capture in the log")
    add("--enable-prefix-caching", action=flag, default=True, help="counts cache queries")
    add("--enable-prompt-tokens-details", action=flag, default=False, help="in each usage")
    add("--disable-uvicorn-access-log", action=flag, default=False, help="no line a request")
    add("--quantization", "-q", help="awq, gptq or fp8: size of the weights")
    add("--kv-cache-dtype", default="auto", help="fp8 halves the size of a token's KV")


def _add_simulation_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the simulation's own arguments")
    add = group.add_argument
    own = "%(default)s"
    add("--slowdown", type=_positive, default=1.0, metavar="X", help="multiplies every step time")
    add("--sim-step-ms", dest="step_ms", type=_positive, default=9.0, help=f"a step ({own})")
    prefill = "prefill_us_per_token"
    add("--sim-prefill-us-per-token", dest=prefill, type=_amount, default=20.0, help=f"({own})")
    add("--sim-kv-tokens", dest="kv_tokens", type=_human, help="KV cache (default: from memory)")
    add("--sim-startup-s", dest="startup_s", type=_amount, default=0.0, help=f"load time ({own})")
    sd = f"sd of log(step time): ({own})"
    add("--sim-launch-noise", dest="launch_noise", type=_amount, default=0.002, help=sd)
    add("--sim-replay-noise", dest="replay_noise", type=_amount, default=0.003, help=sd)
    add("--sim-noise-seed", dest="noise_seed", type=int, help="(default: new at every launch)")


def _dashed(word: str) -> str:
    """``--max_model_len=8k`` → ``--max-model-len=8k``, as vLLM's parser does."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def _others(parser: argparse.ArgumentParser, words: Sequence[str]) -> dict[str, object]:
    """Group the words that no argument of ours took into names and values."""
    groups: dict[str, list[str]] = {}
    name: str | None = None
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-\d.*", word):
            name, equals, value = word.lstrip("-").replace("-", "_").partition("=")
            groups[name] = [value] if equals else []
        elif name is None:
            parser.error(f"unrecognized arguments: {word}")
        else:
            groups[name].append(word)
    return {key: _shown(values) for key, values in groups.items()}


def _shown(values: list[str]) -> object:
    if not values:
        return True
    if len(values) > 1:
        return values
    return int(values[0]) if re.fullmatch(r"-?\d+", values[0]) else values[0]


def _human(text: str) -> int:
    """Read ``8192``, ``8k`` (thousands) or ``8K`` (1,024s)."""
    match = HUMAN.fullmatch(text)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a number above 0, 8k or 8K)")
    return int(float(match[1]) * MULTIPLES[match[2]])


def _length(text: str) -> int | None:
    return None if text in {"auto", "-1"} else _human(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a whole number of at least 1)")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:  # noqa: PLR2004 - the largest port
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a port, 0 to 65535)")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a number)") from None


def _amount(text: str) -> float:
    number = _number(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a number of at least 0)")
    return number


def _positive(text: str) -> float:
    number = _number(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (a number above 0)")
    return number


def _share(text: str) -> float:
    number = _number(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (above 0 and at most 1)")
    return number
