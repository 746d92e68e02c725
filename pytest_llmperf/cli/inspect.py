"""``pytest-llmperf inspect``: a dataset's lengths, overview, statistics and histogram."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmperf.cli._bench_flags import BACKENDS, add_flags, add_traffic, traffic_spec
from pytest_llmperf.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_llmperf.cli._inspect_lengths import Lengths
    from pytest_llmperf.model.traffic import Content, Prompt, Tokenizer, Traffic

SAMPLE = 1000
"""Requests that are looked at where a dataset has no end and nobody says how many."""
PATIENCE_S = 2.0
"""Counting that takes longer than this says how far it is."""


@dataclass(frozen=True)
class Inspected:
    """What was found. ``overview``: what is no length; ``notes``: what a reader must know."""

    dataset: str
    overview: dict[str, Any]
    counted_by: str
    lengths: Lengths
    notes: tuple[str, ...]


@dataclass
class Watched:
    """A tokenizer that says on stderr how far it is, once that takes its time."""

    tokenizer: Tokenizer
    texts: int = 0
    began: float = field(default_factory=time.monotonic)
    told: float | None = None

    @property
    def name(self) -> str:
        """Whose count it is."""
        return self.tokenizer.name

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``."""
        self.texts += 1
        now = time.monotonic()
        if now - (self.told or self.began) > PATIENCE_S:
            self.told = now
            print(f"{self.texts:,} texts counted by {self.name}", file=sys.stderr, flush=True)
        return self.tokenizer.count(text)


def register(calls: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the call."""
    parser = calls.add_parser(
        "inspect",
        help="a dataset's lengths: overview, statistics, histogram",
        description="Look at what a traffic is made of. Takes the traffic flags of bench. "
        "The files of sharegpt and custom are looked at as a whole; with --num-prompts, and of "
        f"every other dataset (default {SAMPLE:,}), what a replay with these flags sends.",
    )
    whose = parser.add_argument_group("counting")
    whose.add_argument("--tokenizer", help="folder with tokenizer.json (without: an estimate)")
    whose.add_argument("--backend", choices=BACKENDS, help="endpoint the traffic is for")
    add_traffic(parser.add_argument_group("traffic"))
    shown = parser.add_argument_group("result")
    shown.add_argument("--bins", type=int, default=20, help="most bins of a histogram (default 20)")
    shown.add_argument("--json", action="store_true", help="print JSON instead of text")
    # What bench has and this has not stands at bench's default: both make the same traffic.
    bench = argparse.ArgumentParser(add_help=False)
    add_flags(bench)
    parser.set_defaults(**vars(bench.parse_args([])))
    parser.set_defaults(num_prompts=None, run=run)


def run(options: argparse.Namespace) -> int:
    """Print what the dataset holds."""
    from pytest_llmperf.cli._inspect_lengths import plain
    from pytest_llmperf.tokens import tokenizer_for

    if options.bins < 1:
        raise UsageError(f"--bins {options.bins}: at least 1 is needed")
    tokenizer = Watched(tokenizer_for(options.tokenizer))
    whole = options.dataset_name == "sharegpt" and options.num_prompts is None
    found = _whole(options, tokenizer) if whole else _sample(options, tokenizer)
    if options.json:
        shown = {
            "dataset": found.dataset,
            "overview": found.overview,
            "counted_by": found.counted_by,
            **plain(found.lengths, options.bins),
            "notes": found.notes,
        }
        print(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        for line in _lines(found, options.bins):
            print(line)
    return 0


def _whole(options: argparse.Namespace, tokenizer: Tokenizer) -> Inspected:
    """Look at a file of conversations as a whole."""
    from pytest_llmperf.cli import _inspect_sharegpt as sharegpt

    options.num_prompts = SAMPLE  # a recipe has a number; this one is not drawn from
    spec = traffic_spec(options)
    file, found = sharegpt.read(spec)
    lengths = sharegpt.lengths_of(found, tokenizer, chat=spec.endpoint == "chat")
    overview = sharegpt.overview(file, found, lengths)
    return Inspected("sharegpt", overview, tokenizer.name, lengths, sharegpt.notes(file, found))


def _sample(options: argparse.Namespace, tokenizer: Tokenizer) -> Inspected:
    """Look at the requests that a replay with these flags sends."""
    from pytest_llmperf.cli._inspect_lengths import Lengths
    from pytest_llmperf.replay.build import build_traffic

    if options.num_prompts is None:
        options.num_prompts = _prompts_of(options) or SAMPLE
    traffic = build_traffic(traffic_spec(options), tokenizer)
    prompts = [request.prompt for request in traffic.requests]
    lengths = Lengths(
        [prompt.prompt_tokens for prompt in prompts], [prompt.output_tokens for prompt in prompts]
    )
    return Inspected(
        options.dataset_name,
        _overview(traffic, prompts),
        traffic.counted_by,
        lengths,
        traffic.notes,
    )


def _prompts_of(options: argparse.Namespace) -> int | None:
    """Return how many prompts there are where a line of a file is one, None elsewhere."""
    from pytest_llmperf.datasets._files import numbered, opened

    if options.dataset_name != "custom" or options.dataset_path is None:
        return None
    with opened("custom", Path(options.dataset_path).expanduser()) as file:
        return sum(1 for _ in numbered(file))


def _overview(traffic: Traffic, prompts: list[Prompt]) -> dict[str, Any]:
    later = sum(prompt.after is not None for prompt in prompts)
    roles = Counter(
        part[0] for prompt in prompts for part in prompt.content if isinstance(part, tuple)
    )
    overview: dict[str, Any] = {
        "requests": len(prompts),
        "content": dict(Counter(_kind(prompt.content) for prompt in prompts)),
        "different": len({prompt.content for prompt in prompts}),
    }
    if later:
        overview |= {"conversations": len(prompts) - later, "later turns": later}
    if roles:
        overview["roles"] = dict(roles.most_common())
    if traffic.offered_rate is not None:
        overview["offered rate (req/s)"] = round(traffic.offered_rate, 3)
    return overview | {"digest": traffic.digest}


def _kind(content: Content) -> str:
    if isinstance(content, str):
        return "text"
    return "messages" if content and isinstance(content[0], tuple) else "token ids"


def _lines(found: Inspected, bins: int) -> Iterator[str]:
    from pytest_llmperf.cli._inspect_lengths import histogram_lines, statistics_lines
    from pytest_llmperf.cli._text import table

    rows = [("dataset", found.dataset)]
    rows += [(name, _said(value)) for name, value in found.overview.items()]
    rows += [("tokens counted by", found.counted_by)]
    yield from table((), rows)
    for note in found.notes:
        yield f"note: {note}"
    yield ""
    yield from statistics_lines(found.lengths)
    for name, values in found.lengths.named.items():
        yield ""
        yield from histogram_lines(name, values, bins)


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {count:,}" for key, count in value.items()) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
