from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pytest_llmperf.engines import ENGINES, Place, TellsPhase
from pytest_llmperf.engines.vllm import ENGINE, vllm
from pytest_llmperf.errors import SpecError, UsageError
from pytest_llmperf.model.server import ServerSpec

BASE = vllm("base", "Qwen/Qwen3-14B", "--max-model-len", "8192", env={"B": "2", "A": "1"})


@pytest.fixture
def executable(tmp_path) -> str:
    path = tmp_path / "vllm-0.25.1"
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def place(executable: str | None, model: str = "Qwen/Qwen3-14B", key: str | None = "k") -> Place:
    return Place(executable, model, "127.0.0.1", 8001, key)


def test_a_suites_words_become_a_spec():
    """The constructor takes vLLM's command line as it is."""
    spec = BASE
    assert spec == ServerSpec(
        name="base",
        engine="vllm",
        model="Qwen/Qwen3-14B",
        arguments=("--max-model-len", "8192"),
        environment=(("A", "1"), ("B", "2")),
    )


def test_the_engine_is_in_the_catalog():
    """It is real, started here, needs GPUs, and tells its phases."""
    engine = ENGINES["vllm"]
    assert (engine.simulated, engine.managed, engine.uses_gpu) == (False, True, True)
    assert isinstance(engine, TellsPhase)


def test_the_command_is_vllm_serve(executable):
    """The suite's arguments, then host and port, which therefore win."""
    command = ENGINE.command(BASE, place(executable, "/models/qwen"))
    assert command.argv == (
        executable,
        "serve",
        "/models/qwen",
        "--max-model-len",
        "8192",
        "--host",
        "127.0.0.1",
        "--port",
        "8001",
    )


def test_the_key_goes_through_the_environment(executable):
    """It is on no command line, in no representation; usage is not reported to anybody."""
    here = place(executable, key="s3cret")
    command = ENGINE.command(BASE, here)
    assert dict(command.environment) == {
        "VLLM_API_KEY": "s3cret",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    assert "s3cret" not in repr(here) + repr(command) + " ".join(command.argv)
    assert "VLLM_API_KEY" not in ENGINE.command(BASE, place(executable, key=None)).environment


def test_the_default_is_vllm_on_path(executable, monkeypatch):
    """Without an option it is the one that a shell would find."""
    folder = Path(executable).parent
    Path(executable).rename(folder / "vllm")
    monkeypatch.setenv("PATH", str(folder))
    ENGINE.check(BASE, place(None))
    assert ENGINE.command(BASE, place(None)).argv[0] == str(folder / "vllm")


def test_a_command_may_have_words_of_its_own(executable):
    """A wrapper that runs a container image needs arguments."""
    wrapper = f"{executable} --image 'vllm:0.26 test'"
    ENGINE.check(BASE, place(wrapper))
    assert ENGINE.command(BASE, place(wrapper)).argv[:4] == (
        executable,
        "--image",
        "vllm:0.26 test",
        "serve",
    )


def test_a_missing_executable_names_the_option(tmp_path, monkeypatch):
    """Found before anything starts, with what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"server 'base' cannot start: no 'vllm' is on PATH"):
        ENGINE.check(BASE, place(None))
    with pytest.raises(UsageError, match=r"'/no/vllm' is no executable.*--llmperf-vllm PATH"):
        ENGINE.check(BASE, place("/no/vllm"))


def test_a_hub_name_is_not_looked_for(executable):
    """Only vLLM knows whether a Hub name exists."""
    ENGINE.check(BASE, place(executable, "no-such/model"))


@pytest.mark.parametrize("file", ["config.json", "params.json"])
def test_a_models_folder_passes(executable, tmp_path, file):
    """Transformers' format and Mistral's."""
    (tmp_path / file).write_text("{}")
    ENGINE.check(BASE, place(executable, str(tmp_path)))


def test_a_gguf_file_passes(executable, tmp_path):
    """A model may be one file."""
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    ENGINE.check(BASE, place(executable, str(tmp_path / "model.gguf")))


@pytest.mark.parametrize("model", ["/no/such/model", "./no/such/model", "~/no/such/model"])
def test_a_missing_folder_is_said(executable, model):
    """With the option that tells where the model lies on this runner."""
    with pytest.raises(UsageError) as caught:
        ENGINE.check(BASE, place(executable, model))
    assert str(caught.value) == (
        f"server 'base': there is no model folder {model}; name the folder on this runner with "
        "--llmperf-model 'Qwen/Qwen3-14B=PATH'"
    )


def test_a_folder_without_a_model_is_said(executable, tmp_path):
    """An empty folder, as an unmounted disk leaves it."""
    with pytest.raises(UsageError, match=r"is no model folder, it has no config\.json"):
        ENGINE.check(BASE, place(executable, str(tmp_path)))


@pytest.mark.parametrize("flag", ["--api-key", "--ssl-keyfile", "--ssl_certfile", "--uds"])
def test_arguments_that_lock_the_launch_out_are_refused(executable, flag):
    """A key of the suite's own, TLS and a socket keep a launch from its server."""
    spec = vllm("base", "m", flag, "x")
    with pytest.raises(SpecError, match=f"take {flag.replace('_', '-')} out of its arguments"):
        ENGINE.check(spec, place(executable, "m"))


def test_the_log_is_read():
    """Facts, failure and phase come from the log."""
    log = "INFO 11-30 08:00:00 [a.py:1] GPU KV cache size: 9 tokens\nValueError: bad\n"
    assert ENGINE.facts(log).kv_tokens == 9
    assert ENGINE.failure(log) == "ValueError: bad"
    assert ENGINE.phase(log) == "warming up"
