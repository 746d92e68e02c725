from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest

from pytest_llmperf.engines.attach import attach
from pytest_llmperf.errors import ServerDiedError, ServerStartError, UsageError
from pytest_llmperf.launch import attached, family, launch, launch_engine, ports
from pytest_llmperf.model.server import ServerSpec


@pytest.fixture
def serving(engine, fake, settings, tmp_path):
    """Return a function that starts a server to attach to; all end with the test."""
    with ExitStack() as stack:

        def start(*arguments):
            folder = tmp_path / f"served-{len(arguments)}"
            return stack.enter_context(launch_engine(engine, fake(*arguments), folder, settings))

        yield start


def at(running, settings, **changes):
    """Return settings that attach to a running server with its key."""
    return replace(
        settings, base_url=running.target.base_url, api_key=running.target.api_key, **changes
    )


def test_attaching_starts_and_stops_nothing(serving, settings, tmp_path):
    """The server's own model and facts are found; afterwards it still runs."""
    server = serving()
    spec = attach("staging")
    with launch(spec, tmp_path / "visit", at(server, settings)) as running:
        assert running.target == server.target
        assert (running.pid, running.executable) == (None, None)
        assert running.facts.engine_version == "9.9.9"
        assert running.facts.kv_tokens == 93184
        assert running.facts.startup_s is None
        assert running.log.read_text().startswith("attached to http://127.0.0.1:")
        running.check_alive()
    assert family.member(server.pid).alive


def test_a_url_may_end_in_v1(serving, settings, tmp_path):
    """The base URL of an OpenAI client works too."""
    server = serving()
    here = replace(at(server, settings), base_url=f"{server.target.base_url}/v1/")
    with launch(attach("staging", "some/model"), tmp_path, here) as running:
        assert running.target == server.target


def test_another_model_is_refused_with_those_served(serving, settings, tmp_path):
    """Measuring whatever happens to run under another name is no measurement."""
    server = serving()
    spec = ServerSpec.of("qwen", "attach", "Qwen/Qwen3-14B")
    with (
        pytest.raises(UsageError, match="serves 'some/model', not 'Qwen/Qwen3-14B'"),
        launch(spec, tmp_path, at(server, settings)),
    ):
        pass
    known = at(server, settings, models={"Qwen/Qwen3-14B": "some/model"})
    with launch(spec, tmp_path, known) as running:
        assert running.target.model == "some/model"


def test_a_server_without_a_list_of_models_needs_a_name(serving, settings, tmp_path):
    """A server that is not vLLM may have no /v1/models."""
    server = serving("--no-models")
    with (
        pytest.raises(UsageError, match="no list of models"),
        launch(attach("staging"), tmp_path, at(server, settings)),
    ):
        pass
    with launch(attach("staging", "some/model"), tmp_path, at(server, settings)) as running:
        assert running.target.model == "some/model"


def test_nobody_there_is_said(settings, tmp_path, monkeypatch):
    """The message has the URL and the option."""
    monkeypatch.setattr(attached, "ANSWER_WITHIN_S", 0.5)
    with ports.reserve() as held:
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with (
            pytest.raises(ServerStartError, match=f"'staging' at {url} does not serve"),
            launch(attach("staging"), tmp_path, replace(settings, base_url=url)),
        ):
            pass


def test_a_wrong_key_is_said(serving, settings, tmp_path):
    """A 401 points to the key's variable."""
    server = serving()
    with (
        pytest.raises(ServerStartError, match=r"401: Unauthorized.*LLMPERF_API_KEY"),
        launch(attach("staging"), tmp_path, replace(at(server, settings), api_key="wrong")),
    ):
        pass


def test_attaching_needs_a_url(settings, tmp_path):
    """The option is named."""
    with (
        pytest.raises(UsageError, match="--llmperf-base-url"),
        launch(attach("staging"), tmp_path, settings),
    ):
        pass


def test_the_end_of_an_attached_server_is_noticed(engine, fake, settings, tmp_path, monkeypatch):
    """Once nobody listens, check_alive raises."""
    monkeypatch.setattr(attached, "KNOCK_EVERY_S", 0.0)
    with launch_engine(engine, fake(), tmp_path / "1", settings) as server:
        visit = launch(attach("staging"), tmp_path / "2", at(server, settings))
        running = visit.__enter__()
    with pytest.raises(ServerDiedError, match=r"server 'staging' at http.* is gone"):
        running.check_alive()
