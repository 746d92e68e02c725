"""Faults on demand: ``--sim-fault KIND[=VALUE][@WHEN]``, as often as wanted.

KIND says what goes wrong:

===================  ===================================================================
``crash``            the engine dies of a CUDA error; the process ends, status 1
``hang``             no more bytes to anybody; the process lives and heeds SIGTERM
``stall``            the engine alone stops: no more tokens, /health and /metrics answer
``error[=STATUS]``   a request is answered with this status (400 to 599; 500)
``cut[=TOKENS]``     the connection is closed after so many tokens (1); 0: after the head
``event[=TOKENS]``   an error event and the end, inside a stream of 200, after so many (1)
``repeat``           answers are one token over and over
``empty``            answers have no text
``other[=SEED]``     answers differ from the usual ones, with each SEED (1) in another way
``throttle=X``       every step takes X times as long
``slow-chat=X``      steps with chats alone take X times as long; mixed ones in proportion
``slow-completions=X``  the same for completions
``stuck-start``      loads for ever and is never ready
``start-oom``        dies while it loads: CUDA out of memory
``ignore-sigterm``   does not end when it is told to
===================  ===================================================================

WHEN says which requests or which time; without it, all requests and from the start on:

=========  ================================================================================
``N``      the N-th request and no other
``N+``     the N-th request and all after it
``1/N``    every N-th request: N, 2 N, 3 N, …
``Ss``     from S seconds after the server got ready on
``Ss-Es``  from S to E seconds after it got ready
=========  ================================================================================

Requests are generations that come in, from 1, probes and warm-up included. A share is counted
off, never drawn, so that a rehearsal has the same faults each time. ``crash``, ``hang`` and
``stall`` happen once: they take ``N`` and ``Ss`` (without WHEN: the first request).
``throttle`` has no request of its own, so that ``N`` alone is refused; for it ``N+`` begins
with that request. Faults of the start and ``ignore-sigterm`` take no WHEN.

Examples: ``crash@20``, ``error=429@1/10``, ``cut=5@1/50``, ``throttle=1.3@60s-90s``,
``repeat@3+``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal[
    "crash", "hang", "stall", "error", "cut", "event", "repeat", "empty", "other",
    "throttle", "slow-chat", "slow-completions", "stuck-start", "start-oom", "ignore-sigterm",
]  # fmt: skip
EndKind = Literal["crash", "hang", "stall"]
AnswerKind = Literal["usual", "repeat", "empty", "other"]

ENDS: tuple[EndKind, ...] = ("crash", "hang", "stall")
ANSWERS: tuple[AnswerKind, ...] = ("repeat", "empty", "other")
REQUESTS = ("error", "cut", "event", *ANSWERS)
PACES = ("throttle", "slow-chat", "slow-completions")
PROCESS = ("stuck-start", "start-oom", "ignore-sigterm")
KINDS = (*ENDS, *REQUESTS, *PACES, *PROCESS)
COUNTS = ("cut", "event", "other")
DEFAULTS = {"error": 500.0, "cut": 1.0, "event": 1.0, "other": 1.0}
"""The value of a kind that may go without one."""
STATUSES = frozenset(status.value for status in HTTPStatus if status >= 400)  # noqa: PLR2004

FORM = re.compile(r"(?P<kind>[^=@]*)(?:=(?P<value>[^@]*))?(?:@(?P<when>.*))?")
NUMBER = r"\d+(?:\.\d+)?"
WHENS = (
    (re.compile(r"(?P<first>\d+)(?P<on>\+?)"), "requests"),
    (re.compile(r"1/(?P<every>\d+)"), "share"),
    (re.compile(rf"(?P<after>{NUMBER})s(?:-(?P<until>{NUMBER})s)?"), "time"),
)


@dataclass(frozen=True, slots=True)
class When:
    """Which requests, counted from 1, and which seconds since the server got ready.

    ``last`` None: all from ``first`` on. ``every`` N: of these, requests N, 2 N, 3 N, ….
    ``seconds`` None: at any time; otherwise from the first value on, until the second.
    """

    first: int = 1
    last: int | None = None
    every: int = 1
    seconds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.first < 1 or self.every < 1:
            raise ValueError(
                f"requests are counted from 1, got {min(self.first, self.every)} (N, N+ or 1/N)"
            )
        if self.seconds is not None and not 0 <= self.seconds[0] < self.seconds[1]:
            after, until = self.seconds
            raise ValueError(
                f"a window ends after it begins, got {after:g}s-{until:g}s (Ss or Ss-Es)"
            )

    @property
    def one(self) -> bool:
        """Whether a single request is meant."""
        return self.last == self.first

    @property
    def windowed(self) -> bool:
        """Whether a time is said that ends."""
        return self.seconds is not None and self.seconds[1] < math.inf

    def meets(self, number: int, elapsed: float) -> bool:
        """Whether the ``number``-th request is meant when it comes at ``elapsed`` seconds."""
        if number < self.first or (self.last is not None and number > self.last):
            return False
        if number % self.every:
            return False
        return self.seconds is None or self.seconds[0] <= elapsed < self.seconds[1]


ALWAYS = When()


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. ``value``: a status, a number of tokens, a factor or a seed; 0 where none is."""

    kind: Kind
    value: float = 0.0
    when: When = field(default=ALWAYS)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r} (one of {', '.join(KINDS)})")
        self._check_value()
        self._check_when()

    def _check_value(self) -> None:
        kind, value = self.kind, self.value
        if kind == "error" and value not in STATUSES:
            raise ValueError(
                f"{kind}: a status of HTTP from 400 to 599 is needed, got {value:g} ({kind}=503)"
            )
        if kind in COUNTS and (value < 0 or value != int(value)):
            raise ValueError(f"{kind}: a whole number of at least 0 is needed, got {value:g}")
        if kind in PACES and not 0 < value < math.inf:
            raise ValueError(f"{kind}: a factor above 0 is needed, got {value:g} ({kind}=1.5)")
        if value and kind not in {*DEFAULTS, *PACES}:
            raise ValueError(f"{kind} takes no value, got {value:g}")

    def _check_when(self) -> None:
        kind, when = self.kind, self.when
        counted = when.every > 1
        if kind in PROCESS and when != ALWAYS:
            raise ValueError(f"{kind} takes no WHEN: it holds for the whole process")
        if kind in ENDS and (counted or when.windowed or not (when.seconds or when.one)):
            raise ValueError(f"{kind} happens once: WHEN is N (a request) or Ss (seconds)")
        if kind == "throttle" and (when.one or counted):
            raise ValueError(f"{kind} is for steps, not for one request: WHEN is N+, Ss or Ss-Es")


def parse_fault(text: str) -> Fault:
    """Read ``KIND[=VALUE][@WHEN]``. Raise ValueError with the rule, the value and the choices."""
    match = FORM.fullmatch(text.strip())
    if match is None or match["kind"] not in KINDS:
        raise ValueError(
            f"a fault is KIND[=VALUE][@WHEN], got {text!r}; KIND is one of {', '.join(KINDS)}"
        )
    kind, value, when = match["kind"], match["value"], match["when"]
    try:
        return Fault(
            cast("Kind", kind),
            DEFAULTS.get(kind, 0.0) if value is None else _value(value),
            _default_when(kind) if when is None else _when(when),
        )
    except ValueError as error:
        raise ValueError(f"{error} (in {text!r})") from None


def _value(value: str) -> float:
    if not re.fullmatch(NUMBER, value):
        raise ValueError(f"a fault's VALUE is a number of at least 0, got {value!r}")
    return float(value)


def _default_when(kind: str) -> When:
    return When(first=1, last=1) if kind in ENDS else ALWAYS


def _when(when: str) -> When:
    for pattern, form in WHENS:
        match = pattern.fullmatch(when)
        if match is None:
            continue
        if form == "share":
            return When(every=int(match["every"]))
        if form == "time":
            return When(seconds=(float(match["after"]), float(match["until"] or math.inf)))
        first = int(match["first"])
        return When(first=first, last=None if match["on"] else first)
    raise ValueError(
        f"a fault's WHEN is N, N+, 1/N, Ss or Ss-Es, got {when!r} (request N, from request N on, "
        "every N-th, from S seconds on, from S to E seconds)"
    )


@dataclass(frozen=True, slots=True)
class Treatment:
    """What faults do to one request.

    ``end``: the whole server ends so, with this request. ``status``: the answer is this error.
    ``cut_after`` and ``error_after``: its stream breaks after so many tokens. ``factor`` is on
    the steps in which it runs.
    """

    end: EndKind | None = None
    status: int | None = None
    cut_after: int | None = None
    error_after: int | None = None
    answer: AnswerKind = "usual"
    seed: int = 0
    factor: float = 1.0

    @property
    def breaks(self) -> bool:
        """Whether the answer ends too early."""
        return self.cut_after is not None or self.error_after is not None


WELL = Treatment()


@dataclass(frozen=True, slots=True)
class Faults:
    """All faults of a server. Pure: requests and time are told, nothing is counted here."""

    faults: tuple[Fault, ...] = ()

    @classmethod
    def of(cls, faults: Iterable[Fault]) -> Faults:
        """Return the collection of ``faults``; of two that meet one request the first counts."""
        return cls(tuple(faults))

    @property
    def never_starts(self) -> bool:
        """Whether it loads for ever."""
        return self._has("stuck-start")

    @property
    def dies_at_start(self) -> bool:
        """Whether it ends, out of GPU memory, where the weights are loaded."""
        return self._has("start-oom")

    @property
    def ignores_sigterm(self) -> bool:
        """Whether SIGTERM has no effect."""
        return self._has("ignore-sigterm")

    def timed_ends(self) -> tuple[tuple[float, EndKind], ...]:
        """Return (seconds since it got ready, how it ends) of the ends that a clock brings."""
        return tuple(
            (fault.when.seconds[0], kind)
            for fault in self.faults
            for kind in ENDS
            if fault.kind == kind and fault.when.seconds
        )

    def throttle(self, number: int, elapsed: float) -> float:
        """Return the factor on a step, ``number`` requests having come, at ``elapsed`` seconds."""
        factor = 1.0
        for fault in self.faults:
            if fault.kind == "throttle" and fault.when.meets(max(number, 1), elapsed):
                factor *= fault.value
        return factor

    def treatment(self, number: int, elapsed: float, *, chat: bool) -> Treatment:
        """Return what happens to the ``number``-th request, a chat or a completion."""
        met = {
            fault.kind: fault
            for fault in reversed(self.faults)
            if fault.when.meets(number, elapsed)
        }
        if not met:
            return WELL
        slow = met.get("slow-chat" if chat else "slow-completions")
        return Treatment(
            end=next((kind for kind in ENDS if kind in met and not met[kind].when.seconds), None),
            status=_whole(met.get("error")),
            cut_after=_whole(met.get("cut")),
            error_after=_whole(met.get("event")),
            answer=next((kind for kind in ANSWERS if kind in met), "usual"),
            seed=_whole(met.get("other")) or 0,
            factor=slow.value if slow else 1.0,
        )

    def _has(self, kind: Kind) -> bool:
        return any(fault.kind == kind for fault in self.faults)


def _whole(fault: Fault | None) -> int | None:
    return None if fault is None else int(fault.value)
