"""Does a server answer as it did? Said in a verdict, judged by nobody.

Each launch was asked a traffic's first prompts (``replay.probe``). Greedy answers of one engine
on one machine are the same; another version's kernels may turn a near tie, another
quantisation many. Whoever gates an upgrade wants to know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_llmperf.campaign.results import CampaignResult
from pytest_llmperf.model.answers import ANSWERS, RANDOM, Answers
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.server import ServerSpec


@dataclass(frozen=True, slots=True)
class _Given:
    """What a night's launches answered to one prompt: distinct digests, one's beginning."""

    digests: tuple[str, ...]
    excerpt: str = ""

    @property
    def line(self) -> str:
        return ",".join(self.digests)

    @classmethod
    def of(cls, line: str) -> _Given:
        return cls(tuple(line.split(",")))

    @property
    def kinds(self) -> set[str]:
        return {digest.partition(":")[0] for digest in self.digests}


def answer_notes(
    result: CampaignResult,
    servers: Sequence[ServerSpec],
    traffic: str,
    baseline: object = None,
) -> tuple[str, ...]:
    """Return what is to be said of the answers of a server, or of a pair, reference first.

    Where they could not be had; whether launches agree with each other, the judged server with
    the last accepted night of ``baseline`` (what is no Baseline is passed over) that knows its
    answers, and the two of a pair. Of random weights nothing is said: they answer noise.
    """
    judged = servers[-1]
    notes = [note for server in servers for note in _missing(result, server, traffic)]
    if any(answers.random_weights for s in servers for answers in _launches(result, s, traffic)):
        return tuple(notes)
    given = _given(_launches(result, judged, traffic))
    for server in servers:
        told = _given(_launches(result, server, traffic))
        if varied := sum(len(one.digests) > 1 for one in told):
            notes.append(
                f"answers: {server.name}'s launches differ among themselves in {varied} of "
                f"{len(told)} probes, so that a difference to others means little"
            )
    if len(servers) > 1:
        reference = _given(_launches(result, servers[0], traffic))
        notes += _compared(reference, given, f"{servers[0].name} does")
    if isinstance(baseline, Baseline) and (night := _last(baseline)) is not None:
        stored = [_Given.of(str(line)) for line in night.provenance[ANSWERS]]
        notes += _compared(stored, given, f"on the accepted night of {night.date}")
    return tuple(notes)


def answers_for_night(result: CampaignResult, server: ServerSpec, traffic: str) -> dict[str, Any]:
    """Return what a night's provenance is to hold of the answers; nothing where there are none."""
    launches = _launches(result, server, traffic)
    lines = [one.line for one in _given(launches)]
    random = any(answers.random_weights for answers in launches)
    return {ANSWERS: lines, **({RANDOM: True} if random else {})} if lines else {}


def _launches(result: CampaignResult, server: ServerSpec, traffic: str) -> list[Answers]:
    return [
        launch.answers[traffic]
        for launch in result.of(server.name, traffic)
        if traffic in launch.answers
    ]


def _given(launches: Sequence[Answers]) -> list[_Given]:
    """Return what was answered to each prompt that any launch answered."""
    given = []
    for number in range(max((len(one.answers) for one in launches), default=0)):
        answers = [one.answers[number] for one in launches if len(one.answers) > number]
        digests = dict.fromkeys(answer.digest for answer in answers)
        given.append(_Given(tuple(digests), answers[0].excerpt))
    return given


def _missing(result: CampaignResult, server: ServerSpec, traffic: str) -> Iterator[str]:
    errors = [answers.error for answers in _launches(result, server, traffic) if answers.error]
    if errors:
        launches = f"in {len(errors)} launch{'es' * (len(errors) != 1)}"
        yield f"answers: {server.name} gave not all that it was asked for {launches}: {errors[0]}"


def _last(baseline: Baseline) -> Night | None:
    """Return the last accepted night whose answers can be compared."""
    for night in reversed(baseline.nights):
        lines = night.provenance.get(ANSWERS)
        if lines and isinstance(lines, list | tuple) and not night.provenance.get(RANDOM):
            return night
    return None


def _compared(then: Sequence[_Given], now: Sequence[_Given], what: str) -> Iterator[str]:
    """Say how many answers differ between two nights or servers, and show the first."""
    # A line a prompt; a probe that ended early leaves prompts that only one side has.
    both = list(zip(then, now, strict=False))
    if not both:
        return
    if not all(old.kinds & new.kinds for old, new in both):
        yield f"answers: cannot tell whether they are as {what}: one gave token ids, one text"
        return
    differing = [
        (number, old, new)
        for number, (old, new) in enumerate(both, 1)
        if not set(old.digests) & set(new.digests)
    ]
    if differing:
        number, old, new = differing[0]
        shown = f"{old.excerpt!r} → {new.excerpt!r}" if old.excerpt else f"now {new.excerpt!r}"
        yield (
            f"answers: {len(differing)} of {len(both)} probes answer otherwise than {what} "
            f"(prompt {number}: {shown})"
        )
