"""TrafficSpec and the digest of Traffic."""

import json
from dataclasses import fields, replace

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.traffic import (
    PAIRS,
    Prompt,
    Request,
    Traffic,
    TrafficSpec,
    thaw,
)

SPEC = TrafficSpec("t", "random", num_prompts=2)
REQUESTS = (Request(0, 0, Prompt("hi", 1, 5)), Request(1, 500_000_000, Prompt((7, 8), 2, 5)))


def test_the_digest_is_pinned():
    """It must never change by accident: every stored baseline depends on it."""
    assert Traffic(SPEC, REQUESTS).digest == "6a8dcc994b4968f2"


@pytest.mark.parametrize(
    "other",
    [
        Traffic(replace(SPEC, max_concurrency=3), REQUESTS),
        Traffic(replace(SPEC, temperature=0.5), REQUESTS),
        Traffic(replace(SPEC, ignore_eos=False), REQUESTS),
        Traffic(SPEC, (REQUESTS[0], replace(REQUESTS[1], due_ns=1))),
        Traffic(SPEC, (REQUESTS[0], replace(REQUESTS[1], prompt=Prompt((7, 9), 2, 5)))),
        Traffic(SPEC, (REQUESTS[0], replace(REQUESTS[1], prompt=Prompt((7, 8), 2, 6)))),
        Traffic(SPEC, REQUESTS[:1]),
    ],
)
def test_whatever_reaches_the_server_changes_the_digest(other):
    """Prompts, lengths, due times, concurrency, sampling."""
    assert other.digest != Traffic(SPEC, REQUESTS).digest


@pytest.mark.parametrize(
    ("spec", "content", "turn", "digest"),
    [
        (replace(SPEC, ignore_eos=False, stop=("END",)), "b", {}, "0737327dcc27ed6d"),
        (replace(SPEC, sampling=(("top_p", 0.9),)), "b", {}, "81b117788917d6c5"),
        (SPEC, "b", {"after": 0, "think_ns": 5}, "eaf37d47482d25a9"),
        (SPEC, (("system", "s"), ("user", "b")), {}, "88ec1fe15e96434e"),
    ],
)
def test_what_came_later_has_digests_of_its_own(spec, content, turn, digest):
    """Stop texts, sampling, turns and messages: pinned as the rest is."""
    requests = (REQUESTS[0], Request(1, 0, Prompt(content, 1, 5, **turn)))
    assert Traffic(spec, requests).digest == digest


@pytest.mark.parametrize(
    ("after", "think_ns"), [(1, 0), (2, 0), (-1, 0), (0, -1)], ids=["itself", "later", "none", "-1"]
)
def test_a_turn_waits_for_an_earlier_prompt(after, think_ns):
    """For itself, a later one or none it would wait for ever; time does not run backwards."""
    requests = (REQUESTS[0], Request(1, 0, Prompt("b", 1, 5, after, think_ns)), REQUESTS[1])
    with pytest.raises(SpecError, match=f"prompt 1 waits {think_ns} ns after .* prompt {after};"):
        Traffic(SPEC, requests)


def test_turns_have_no_offered_rate():
    """When they are due, the server decides."""
    turn = Request(1, 0, Prompt("b", 1, 5, after=0))
    assert Traffic(SPEC, (REQUESTS[0], turn)).offered_rate is None


@pytest.mark.parametrize("field", ["extra_body", "sampling"])
@pytest.mark.parametrize("nested", [{"b": 1}, {}, [{"b": 1}], [[1], [2]]], ids=json.dumps)
def test_a_nested_value_is_not_its_own_text(field, nested):
    """Other bytes are sent, so it is another recipe and another digest."""
    value, text = (
        TrafficSpec.of("t", "random", {}, {field: {"a": one}})
        for one in (nested, json.dumps(nested))
    )
    assert value != text
    assert len({value, text}) == 2
    assert Traffic(value, REQUESTS).digest != Traffic(text, REQUESTS).digest
    assert thaw(getattr(value, field)) == {"a": nested}
    assert thaw(getattr(text, field)) == {"a": json.dumps(nested)}


@pytest.mark.parametrize(
    ("value", "digest"),
    [
        ({"b": 1}, "407b36fbcb2cd10c"),
        ([1, 2], "558f66c2803482eb"),
        ("plain", "5d6e5ee93f39b081"),
        ('{"b":1}', "afc81fc1b211dd62"),
        ("[" * 100_000, "977a6f5d37c923e8"),
        ('{"b": 1}', "8e71eeb171a02a8f"),
    ],
    ids=["nested", "flat", "plain", "no frozen text", "no JSON", "marked"],
)
def test_digests_of_extra_bodies_are_pinned(value, digest):
    """As they were before texts of nested values got a mark, which the last one has."""
    spec = TrafficSpec.of("t", "random", {}, {"extra_body": {"a": value}})
    assert Traffic(spec, REQUESTS).digest == digest


def test_the_mapping_fields_are_the_ones_listed():
    """A field that is added as pairs must be listed, or it could not be given or stored."""
    assert tuple(f.name for f in fields(TrafficSpec) if f.type == "Pairs") == PAIRS


def test_what_does_not_reach_the_server_does_not():
    """Another count of the same prompt's tokens, another name: the same traffic."""
    counted = (REQUESTS[0], replace(REQUESTS[1], prompt=Prompt((7, 8), 99, 5)))
    assert Traffic(replace(SPEC, name="u"), counted).digest == Traffic(SPEC, REQUESTS).digest


def test_the_offered_rate_is_that_of_the_gaps():
    """Two requests half a second apart are two a second; one alone has no rate."""
    assert Traffic(SPEC, REQUESTS).offered_rate == 2.0
    assert Traffic(SPEC, REQUESTS[:1]).offered_rate is None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"num_prompts": 0}, "num_prompts is 0, not a number"),
        ({"num_prompts": "3"}, "num_prompts is '3', not a number"),
        ({"request_rate": 0.0}, "request_rate is 0.0, not above 0"),
        ({"max_concurrency": 0}, "max_concurrency is 0"),
        ({"endpoint": "embed"}, "endpoint is 'embed', known: chat, completions"),
        ({"max_error_rate": 2.0}, "max_error_rate is 2.0"),
        ({"stop": "END"}, "stop= needs ignore_eos=False: with forced lengths"),
        (
            {"sampling": {"top_p": 0.9, "max_tokens": 5}},
            "sampling= may not set 'max_tokens', which is the dataset's output length",
        ),
        ({"sampling": {"stream": False}}, "sampling= may not set 'stream', which is always on"),
        (
            {"sampling": {"temperature": 1}},
            "sampling= may not set 'temperature', which is set by temperature=",
        ),
        ({"rate": 3}, "unknown option 'rate'. Known: "),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(options, complaint):
    """The message names the traffic, the option and the rule."""
    with pytest.raises(SpecError) as caught:
        TrafficSpec.of("t", "random", {}, options)
    assert f"traffic 't': {complaint}" in str(caught.value)


def test_the_warm_up_is_as_many_as_run_at_once():
    """At the traffic's own concurrency; 32 where none is set; never more than there are."""
    assert TrafficSpec("t", "random", max_concurrency=10).warmups == 10
    assert TrafficSpec("t", "random").warmups == 32
    assert TrafficSpec("t", "random", num_prompts=5).warmups == 5
    assert TrafficSpec("t", "random", num_warmups=0).warmups == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"extra_body": {"a": object()}}, "extra_body 'a' cannot be written as JSON (Object of"),
        ({"sampling": {"a": [{1, 2}]}}, "sampling 'a' cannot be written as JSON (Object of type"),
        ({"headers": {5: "x"}}, "headers has the name 5, not a string"),
        ({"extra_body": ["secret"]}, "extra_body is a list, not a mapping"),
        ({"num_prompts": 10_000_001}, "num_prompts is 10000001, at most 10,000,000 are possible"),
    ],
)
def test_what_no_request_can_hold_is_refused_at_once(options, complaint):
    """Traffic and option are named, no value of them shown."""
    with pytest.raises(SpecError) as caught:
        TrafficSpec.of("t", "random", {}, options)
    assert str(caught.value).startswith(f"traffic 't': {complaint}")
    assert "secret" not in str(caught.value)
