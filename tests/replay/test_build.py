"""From a recipe to its requests: the same bytes in any process, and new ones by one file."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pytest_llmperf import arrivals, datasets
from pytest_llmperf.datasets.prefix_repetition import prefix_repetition
from pytest_llmperf.datasets.random import random
from pytest_llmperf.datasets.sharegpt import sharegpt
from pytest_llmperf.errors import DatasetError, SpecError, UnknownNameError
from pytest_llmperf.model.traffic import Prompt, Request, TrafficSpec
from pytest_llmperf.replay.build import build_traffic
from pytest_llmperf.tokens import tokenizer_for

ESTIMATE = tokenizer_for(None)

RECIPES = """
import json, sys
from pytest_llmperf.datasets.prefix_repetition import prefix_repetition
from pytest_llmperf.datasets.random import random
from pytest_llmperf.datasets.sharegpt import sharegpt
from pytest_llmperf.replay.build import build_traffic
from pytest_llmperf.tokens import tokenizer_for

recipes = [
    random("r", num_prompts=20, input_len=64, output_len=16, request_rate=10, seed=3),
    random("v", num_prompts=20, input_len=64, range_ratio=0.5, arrival="constant", request_rate=4),
    prefix_repetition("p", num_prompts=20, num_prefixes=3, max_concurrency=4),
    sharegpt("s", path=sys.argv[1], num_prompts=20, arrival="ramp_up", endpoint="chat",
             arrival_options={"start_rps": 1, "end_rps": 9}, headers={"b": "1", "a": "2"}),
]
print(json.dumps([build_traffic(recipe, tokenizer_for(None)).digest for recipe in recipes]))
"""


@pytest.fixture
def talk(tmp_path):
    """Forty short conversations as a file."""
    turns = [
        [{"value": f"question {i} " * (4 + i)}, {"value": f"answer {i} " * (30 - i // 2)}]
        for i in range(40)
    ]
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"conversations": pair} for pair in turns]))
    return str(path)


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_any_process_makes_the_same_traffic(talk, hash_seed):
    """Literal digests, in processes whose hash() differs: prompts, lengths and due times."""
    done = subprocess.run(
        [sys.executable, "-c", RECIPES, talk],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [
        "c5cefe97ee90bf89",
        "c4856dddbaaa2e8e",
        "e7f0350d375219f3",
        "08272bc4aaed24b0",
    ]


def test_building_leaves_the_global_generators_alone(talk):
    """Nothing draws from Python's or numpy's global generator: a suite may seed its own."""
    code = (
        "import random, sys, numpy; random.seed(5); numpy.random.seed(5); "
        "before = random.getstate(), numpy.random.get_state()[1].tolist()\n"
        + RECIPES
        + "\nimport random\n"
        "sys.exit(before != (random.getstate(), numpy.random.get_state()[1].tolist()))"
    )
    done = subprocess.run([sys.executable, "-c", code, talk], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_requests_are_the_prompts_at_their_times():
    """Prompt i is due at time i; the traffic says who counted."""
    traffic = build_traffic(
        random("x", num_prompts=3, input_len=2, output_len=9, request_rate=4, arrival="constant"),
        ESTIMATE,
    )
    assert [(r.index, r.due_ns, len(r.prompt.content)) for r in traffic.requests] == [
        (0, 250_000_000, 2),
        (1, 500_000_000, 2),
        (2, 750_000_000, 2),
    ]
    assert (traffic.counted_by, traffic.notes, traffic.offered_rate) == ("token ids", (), 4.0)


def test_what_the_dataset_had_to_say_is_in_the_notes(talk):
    """A file with fewer conversations than prompts."""
    traffic = build_traffic(sharegpt("x", path=talk, num_prompts=50), ESTIMATE)
    assert traffic.notes == (
        "only 40 conversations of talk.json are usable: 10 of the 50 prompts repeat them",
    )
    assert traffic.counted_by == "estimate: 4 bytes a token"


@pytest.mark.parametrize(
    ("dataset", "arrival", "message"),
    [
        ("sharegp", "poisson", "unknown dataset 'sharegp'. Did you mean 'sharegpt'? Known: "),
        ("random", "poison", "unknown arrival 'poison'. Did you mean 'poisson'? Known: "),
    ],
)
def test_an_unknown_name_answers_with_the_known_ones(dataset, arrival, message):
    """Of the dataset and of the arrival process."""
    spec = TrafficSpec("x", dataset, arrival=arrival)
    with pytest.raises(UnknownNameError) as caught:
        build_traffic(spec, ESTIMATE)
    assert str(caught.value).startswith(message)


def test_a_mistyped_arrival_option_is_found_before_the_file_is_read():
    """The file does not even exist."""
    spec = sharegpt("x", path="/no/such/file", arrival_options={"bursty": 1})
    with pytest.raises(SpecError, match="unknown option 'bursty'"):
        build_traffic(spec, ESTIMATE)


def test_a_trace_needs_the_dataset_first(talk):
    """Its times are in the file, so that is read before the schedule can be: no false alarm."""
    with pytest.raises(SpecError, match="dataset 'sharegpt' has no recorded times"):
        build_traffic(sharegpt("x", path=talk, arrival="trace"), ESTIMATE)
    with pytest.raises(DatasetError, match="cannot read"):
        build_traffic(sharegpt("x", path="/no/such/file", arrival="trace"), ESTIMATE)


@pytest.fixture
def drop_in(tmp_path, monkeypatch):
    """Drop a module into a catalog's package, as another file of it would lie there."""
    dropped = []

    def drop(package, name, source):
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
        dropped.append((package, name))

    yield drop
    for package, name in dropped:
        sys.modules.pop(f"{package.__name__}.{name}", None)
        vars(package).pop(name, None)


ECHO = """
from pytest_llmperf.datasets import Drawn
from pytest_llmperf.model.traffic import Prompt

class Echo:
    def prompts(self, spec, tokenizer):
        word = dict(spec.dataset_options)["word"]
        prompt = Prompt(word, tokenizer.count(word), 3)
        return Drawn((prompt,) * (spec.num_prompts - SHORT), ("said once",), tokenizer.name)

DATASET = Echo()
"""

EVERY_SECOND = """
class EverySecond:
    def due_ns(self, spec, recorded=None):
        return [second * 10**9 for second in range(spec.num_prompts)]

ARRIVAL = EverySecond()
"""


def test_a_new_dataset_and_a_new_arrival_are_one_file_each(drop_in):
    """Dropped into their packages they are known by name, built from and listed."""
    drop_in(datasets, "echo", ECHO.replace("SHORT", "0"))
    drop_in(arrivals, "every_second", EVERY_SECOND)
    spec = TrafficSpec.of(
        "x", "echo", {"word": "hello"}, {"num_prompts": 2, "arrival": "every_second"}
    )
    traffic = build_traffic(spec, ESTIMATE)
    prompt = Prompt("hello", 2, 3)
    assert traffic.requests == (Request(0, 0, prompt), Request(1, 1_000_000_000, prompt))
    assert traffic.notes == ("said once",)
    assert "echo" in datasets.DATASETS
    assert "every_second" in arrivals.ARRIVALS


RECORDED = """
from pytest_llmperf.datasets import Drawn
from pytest_llmperf.model.traffic import Prompt

class Recorded:
    def prompts(self, spec, tokenizer):
        turns = [Prompt("a", 1, 1), Prompt("b", 1, 1, 0, 5), Prompt("c", 1, 1)][:spec.num_prompts]
        return Drawn(tuple(turns), recorded_ns=TIMES)

DATASET = Recorded()
"""


def test_a_trace_is_sent_when_it_was_recorded(drop_in):
    """First turns at their own times; a later one waits for its answer, whatever its time was."""
    drop_in(datasets, "recorded", RECORDED.replace("TIMES", "(0, 3, 8)"))
    spec = TrafficSpec("x", "recorded", num_prompts=3, arrival="trace")
    requests = build_traffic(spec, ESTIMATE).requests
    assert [(r.due_ns, r.prompt.after, r.prompt.think_ns) for r in requests] == [
        (0, None, 0),
        (0, 0, 5),
        (8, None, 0),
    ]


def test_recorded_times_may_be_left_for_another_process(drop_in):
    """Two conversations at 4 a second, 0.25 and 0.5 s; the rate is that of conversations."""
    drop_in(datasets, "recorded", RECORDED.replace("TIMES", "(0, 3, 8)"))
    spec = TrafficSpec("x", "recorded", num_prompts=3, arrival="constant", request_rate=4)
    requests = build_traffic(spec, ESTIMATE).requests
    assert [r.due_ns for r in requests] == [250_000_000, 0, 500_000_000]


def test_times_that_are_too_few_are_a_mistake_and_named(drop_in):
    """One a prompt: else the wrong request would leave at a time."""
    drop_in(datasets, "recorded", RECORDED.replace("TIMES", "(0, 3)"))
    spec = TrafficSpec("x", "recorded", num_prompts=3, arrival="trace")
    with pytest.raises(SpecError, match="dataset 'recorded' made 2 of the 3 requests asked for"):
        build_traffic(spec, ESTIMATE)


def test_a_dataset_that_makes_too_few_is_a_mistake_and_named(drop_in):
    """Requests are never silently fewer than asked."""
    drop_in(datasets, "echo", ECHO.replace("SHORT", "1"))
    spec = TrafficSpec.of("x", "echo", {"word": "hello"}, {"num_prompts": 2})
    with pytest.raises(SpecError, match="dataset 'echo' made 1 of the 2 requests asked for"):
        build_traffic(spec, ESTIMATE)


def test_an_arrival_that_makes_too_few_is_a_mistake_and_named(drop_in):
    """The last requests would never leave."""
    drop_in(arrivals, "every_second", EVERY_SECOND.replace("num_prompts)", "num_prompts - 1)"))
    spec = random("x", num_prompts=3, arrival="every_second")
    with pytest.raises(SpecError, match="arrival 'every_second' made 2 of the 3 requests"):
        build_traffic(spec, ESTIMATE)


@pytest.mark.parametrize("make", [random, prefix_repetition])
def test_one_recipe_gives_one_digest_and_another_seed_another(make):
    """The digest is of what was made, not of the name."""
    digests = [
        build_traffic(make(name, num_prompts=20, seed=seed), ESTIMATE).digest
        for name, seed in (("a", 1), ("b", 1), ("a", 2))
    ]
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]
