"""ServerSpec and the arguments it is read from."""

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.model.arguments import argument
from pytest_llmperf.model.server import ServerSpec


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--max-model-len", "8192"], "8192"),
        (["--max-model-len=8192"], "8192"),
        (["--max_model_len", "8192"], "8192"),
        (["--max-model-len", "1", "--max-model-len", "2"], "2"),
        (["--max-model-len"], ""),
        (["--max-model-len", "--enforce-eager"], ""),
        (["--other", "8192"], None),
        (["8192"], None),
    ],
)
def test_an_argument_is_read_as_vllm_reads_it(words, value):
    """Both spellings, both separators, the last one wins, a flag is empty, absent is None."""
    assert argument(words, "--max-model-len") == value


def test_a_negative_number_is_a_value():
    """``--seed -1`` is no flag followed by another."""
    assert argument(["--seed", "-1"], "--seed") == "-1"


def test_gpus_follow_from_the_arguments():
    """Tensor 2 x pipeline 2 x data parallel 3 are 12."""
    words = ["-tp", "2", "--pipeline-parallel-size=2", "--data-parallel-size", "3"]
    assert ServerSpec.of("a", "vllm", "m", words).gpus == 12
    assert ServerSpec.of("a", "vllm", "m").gpus == 1


def test_a_size_that_is_no_number_is_told():
    """When the suite is read, not when the server dies."""
    with pytest.raises(SpecError, match=r"server 'a': --tensor-parallel-size is 'two'"):
        ServerSpec.of("a", "vllm", "m", ["-tp", "two"])


def test_a_number_among_the_arguments_is_told():
    """The first mistake anyone makes: ``"--max-model-len", 8192``."""
    with pytest.raises(SpecError, match=r"argument 8192 is a int; .* '8192'"):
        ServerSpec.of("a", "vllm", "m", ["--max-model-len", 8192])


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"A": 1}, "the value of env 'A' is a int; write names and values as strings"),
        ({1: "secret"}, "the name of env 1 is a int; write names and values as strings"),
    ],
)
def test_a_number_in_the_environment_is_told(environment, complaint):
    """When the suite is read; a value is never shown."""
    with pytest.raises(SpecError) as caught:
        ServerSpec.of("a", "vllm", "m", environment=environment)
    assert str(caught.value) == f"server 'a': {complaint}"


def test_a_name_has_at_most_a_hundred_characters():
    """A pair's folder has two names, and a file system ends at 255 bytes."""
    assert ServerSpec.of("a" * 100, "vllm", "m").name == "a" * 100
    with pytest.raises(SpecError, match="has 101 characters: at most 100 are allowed"):
        ServerSpec.of("a" * 101, "vllm", "m")


@pytest.mark.parametrize("name", ["", 5, "a b", "../x", "a/b", ".hidden", "-x"])
def test_a_name_that_can_be_no_folder_is_refused(name):
    """Names become folders and test ids."""
    with pytest.raises(SpecError, match="starts with a letter or digit"):
        ServerSpec.of(name, "vllm", "m")


def test_equal_specs_are_one():
    """A spec is a value: it keys campaigns."""
    one = ServerSpec.of("a", "vllm", "m", ["--x"], {"B": "1", "A": "2"})
    two = ServerSpec.of("a", "vllm", "m", ("--x",), {"A": "2", "B": "1"})
    assert {one: 1}[two] == 1
