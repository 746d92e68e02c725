"""Reading a vLLM log: the memory budget, the start-up's phases, and why a server died.

Written against logs of 0.25.1 (H200) and 0.32.0 (CPU) and the sources of 0.32.0; older
wordings that are known are taken too. Whatever a version does not say, or says in words that
are not known here, reads as None.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_llmperf.model.launch import LaunchFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_LINE = 2000
"""Characters of a line that are read: a configuration dump has tens of thousands."""

ANSI = re.compile(r"\x1b\[[0-9;]*m")
PROCESS = re.compile(r"^\((?P<process>[\w.\-]+ pid=\d+)\) ?")
STAMP = re.compile(
    r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<when>\d\d-\d\d \d\d:\d\d:\d\d) "
    r"\[[^\]\s]*\] ?"
)

NUMBER = r"(\d+(?:,\d{3})*(?:\.\d+)?)"
VERSION = re.compile(
    r"(?:^| )version (\d\S*)|API server version (\d\S*)|LLM engine \(v(\d[^)\s]*)\)"
)
WEIGHTS = re.compile(
    rf"(?:[Mm]odel loading|[Ll]oading model weights|model weights) (?:took|take) ?{NUMBER} ?Gi?B"
)
LOADED = re.compile(rf"Model loading took .*? and {NUMBER} seconds")
READ = re.compile(rf"Loading weights took {NUMBER} seconds")
KV_MEMORY = re.compile(
    rf"Available KV cache memory: {NUMBER} GiB|\({NUMBER}/[\d.]+\) GiB for KV cache"
    rf"|reserved {NUMBER} GiB memory for KV Cache|reserved for KV Cache is {NUMBER} ?GiB"
)
KV_TOKENS = re.compile(rf"KV cache size: {NUMBER} tokens")
CONCURRENCY = re.compile(rf"Maximum concurrency for {NUMBER} tokens per request: {NUMBER}x")
MODEL_LEN = re.compile(rf"Using max model len {NUMBER}")
GRAPHS = re.compile(rf"Graph capturing finished in {NUMBER} secs?, took {NUMBER} GiB")
COMPILE = re.compile(rf"torch\.compile (?:took|takes) {NUMBER} s in total")
INIT = re.compile(rf"init engine \(.*?\) took {NUMBER} s")
ENGINE_STARTS = re.compile(r"Initializing (?:a|an) .*LLM engine")
COMPILED = re.compile(r"Compiling a graph for |Cache the graph (?:of|for) ")
NOT_COMPILED = re.compile(r"Directly load |Enforce eager set|enforce_eager=True")

PHASES = (
    (ENGINE_STARTS, "starting the engine"),
    (
        re.compile(r"Starting to load model|Loading model from|Loading safetensors"),
        "loading weights",
    ),
    (re.compile(r"Loading drafter model"), "loading the draft model"),
    (re.compile(r"Model loading took|torch\.compile took"), "measuring memory"),
    (re.compile(r"for vLLM's torch\.compile|Dynamo bytecode|Compiling a graph"), "compiling"),
    (re.compile(r"KV cache size:|Graph capturing finished"), "warming up"),
    (re.compile(r"Capturing CUDA graphs|Capturing cudagraphs"), "capturing graphs"),
    (re.compile(r"Starting vLLM|Application startup complete"), "starting the HTTP server"),
)
"""What a line says → what the server does from then on."""

EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure|Timeout|Refused)"
    r"(?::.*)?$"
)
CONSEQUENCE = re.compile(
    r"[Ss]ee root cause above|[Ss]ee stack trace|EngineDeadError|CancelledError"
    r"|^SystemExit|^KeyboardInterrupt|^RuntimeError: cancelled$"
)
"""Exceptions that only say that another process failed."""

WORKER_DIED = re.compile(r"[Ww]orker proc \S+ died unexpectedly")

ACCESS = re.compile(r'"(?:GET|POST|HEAD) \S+ HTTP/1\.\d" \d+')
USAGE = re.compile(r"^(?:[\w.\- ]+: )?error: \S")
BAD_END = re.compile(
    r"command not found|No such file or directory|Permission denied|(?i:address already in use)"
    r"|^Killed|Segmentation fault|Bus error|Fatal Python error|Illegal instruction|core dumped"
)
PYDANTIC_TAIL = re.compile(r" \[type=\w+, input_value=.*$")
LONGEST_REASON = 400
"""Characters of a line that a failure message quotes."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its prefixes. ``process`` is ``EngineCore pid=750`` or empty."""

    process: str
    level: str
    when: str
    text: str


def lines(log: str) -> Iterator[Line]:
    """Yield a log's lines that are not empty; a progress bar's states are lines of their own."""
    for raw in re.split(r"[\r\n]+", log):
        text = ANSI.sub("", raw[:LONGEST_LINE]).rstrip()
        process = level = when = ""
        if match := PROCESS.match(text):
            process, text = match["process"], text[match.end() :]
        if match := STAMP.match(text):
            level, when, text = match["level"], match["when"], text[match.end() :]
        if text.strip():
            yield Line(process, level, when, text)


def read_facts(log: str) -> LaunchFacts:
    """Return what a vLLM log says about its memory and its start-up.

    Weights and graphs are those of the fullest GPU, KV memory that of the scarcest (it sets
    the budget of all); KV tokens and concurrency are summed over data-parallel engines. The
    phase ``init_engine`` contains ``compile`` and ``capture_graphs``; ``boot`` ends where the
    engine process starts to work, and has whole seconds only.
    """
    said = _Said()
    for line in lines(log):
        said.hear(line)
    return said.facts()


class _Said:
    """What a log's lines have said so far, by the process that said it where that matters."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.weights: list[float] = []
        self.kv: list[float] = []
        self.graphs: list[float] = []
        self.tokens: dict[str, float] = {}
        self.concurrency: dict[str, float] = {}
        self.lengths: list[float] = []
        self.request_tokens: float | None = None
        self.compiled = False
        self.not_compiled = False
        self.seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.first: str = ""
        self.engine_starts: str = ""

    def hear(self, line: Line) -> None:
        """Take in one line."""
        text = line.text
        self.first = self.first or line.when
        if self.version is None and (match := VERSION.search(text)):
            self.version = next(group for group in match.groups() if group)
        if not self.engine_starts and ENGINE_STARTS.search(text):
            self.engine_starts = line.when
        self.compiled = self.compiled or bool(COMPILED.search(text))
        self.not_compiled = self.not_compiled or bool(NOT_COMPILED.search(text))
        self._memory(line)
        for phase, pattern in (("load", LOADED), ("read", READ), ("compile", COMPILE)):
            if match := pattern.search(text):
                self.seconds[phase][line.process] += _number(match[1])
        if match := INIT.search(text):
            self.seconds["init"][line.process] = _number(match[1])

    def _memory(self, line: Line) -> None:
        text = line.text
        if match := WEIGHTS.search(text):
            self.weights.append(_number(match[1]))
        if match := KV_MEMORY.search(text):
            self.kv.append(_number(next(group for group in match.groups() if group)))
        if match := GRAPHS.search(text):
            self.seconds["capture"][line.process] += _number(match[1])
            self.graphs.append(_number(match[2]))
        if match := KV_TOKENS.search(text):
            self.tokens[line.process] = _number(match[1])
        if match := CONCURRENCY.search(text):
            self.request_tokens = _number(match[1])
            self.concurrency[line.process] = _number(match[2])
        if match := MODEL_LEN.search(text):
            self.lengths.append(_number(match[1]))

    def facts(self) -> LaunchFacts:
        """Return what was heard."""
        length = self.request_tokens or (self.lengths[0] if self.lengths else None)
        return LaunchFacts(
            engine_version=self.version,
            weights_gib=max(self.weights, default=None),
            kv_gib=min(self.kv, default=None),
            kv_tokens=int(sum(self.tokens.values())) if self.tokens else None,
            graphs_gib=max(self.graphs, default=None),
            max_concurrency=round(sum(self.concurrency.values()), 2) if self.concurrency else None,
            max_model_len=int(length) if length else None,
            phases=self._phases(),
            cold=True if self.compiled else (False if self.not_compiled else None),
        )

    def _phases(self) -> dict[str, float]:
        longest = {phase: max(by.values()) for phase, by in self.seconds.items()}
        found = {
            "boot": _between(self.first, self.engine_starts),
            "load_weights": longest.get("load", longest.get("read")),
            "compile": longest.get("compile"),
            "capture_graphs": longest.get("capture"),
            "init_engine": longest.get("init"),
        }
        return {phase: round(value, 3) for phase, value in found.items() if value is not None}


def read_phase(log: str) -> str | None:
    """Return what the server is doing by the last line that tells, None where none does."""
    phase = None
    for line in lines(log):
        for pattern, meaning in PHASES:
            if pattern.search(line.text):
                phase = meaning
    return phase


def read_failure(log: str) -> str | None:
    """Return the line(s) that say why a server died: the root cause, not what followed of it.

    In this order: the complaint of the argument parser; the last exception of the process
    that failed first; the word that a worker process is gone (with its exit code, negative
    for a signal); an exception that only passes the news on; errors of the shell or the
    loader; lines logged as errors; the last lines. None where the log is empty.
    """
    heard = list(lines(log))
    if usage := [line.text for line in heard if USAGE.match(line.text) and not line.level]:
        return _cut(usage[-1])
    exceptions = [n for n, line in enumerate(heard) if EXCEPTION.match(line.text)]
    if (position := _root_cause(heard, exceptions)) is not None:
        return "\n".join(_cut(text) for text in _whole_message(heard, position))
    for found in (
        [line.text for line in heard if WORKER_DIED.search(line.text)],
        [heard[n].text for n in exceptions],
        [line.text for line in heard if BAD_END.search(line.text)],
        [line.text for line in heard if line.level in {"ERROR", "CRITICAL"}],
        [line.text for line in heard if not ACCESS.search(line.text)],
    ):
        if found:
            return "\n".join(_cut(text) for text in found[-5:])
    return None


def _root_cause(heard: list[Line], exceptions: list[int]) -> int | None:
    """Return the position of the exception that the others followed from, if one is told.

    Processes that only pass the news on are bystanders. Of the process that failed first the
    last exception counts: the one that ended it, with its causes above it.
    """
    consequences = [n for n in exceptions if CONSEQUENCE.search(heard[n].text)]
    causes = [n for n in exceptions if n not in consequences]
    bystanders = {heard[n].process for n in consequences}
    failing = [n for n in causes if heard[n].process not in bystanders] or causes
    return max((n for n in failing if heard[n].process == heard[failing[0]].process), default=None)


def _whole_message(heard: list[Line], position: int) -> list[str]:
    """Return an exception's line and the indented one that its message goes on with."""
    following = heard[position + 1 : position + 2]
    more = [line.text for line in following if line.text[0].isspace()]
    return [heard[position].text, *more]


def _cut(text: str) -> str:
    short = PYDANTIC_TAIL.sub("", text.strip())
    return short if len(short) <= LONGEST_REASON else f"{short[: LONGEST_REASON - 1]}…"


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _between(earlier: str, later: str) -> float | None:
    """Seconds between two stamps, which have no year; None where they do not tell."""
    if not earlier or not later:
        return None
    first, last = (
        datetime.strptime(f"2000-{when}+0000", "%Y-%m-%d %H:%M:%S%z") for when in (earlier, later)
    )
    seconds = (last - first).total_seconds()
    return seconds if seconds >= 0 else None
