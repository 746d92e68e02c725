from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_llmperf import http
from pytest_llmperf.errors import (
    PortInUseError,
    ServerDiedError,
    ServerStartError,
    UnknownNameError,
)
from pytest_llmperf.launch import family, launch, launch_engine, ports
from pytest_llmperf.model.server import ServerSpec

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_launch_gives_a_server_that_answers_and_leaves_nothing(
    engine, fake, settings, tmp_path, gone
):
    """Inside the context the server answers; outside neither it nor its supervisor is left."""
    with launch_engine(engine, fake(), tmp_path, settings) as running:
        server = family.member(running.pid)
        assert server is not None
        http.complete(running.target)
        running.check_alive()
        assert running.target.host == "127.0.0.1"
        assert running.target.model == "some/model"
        assert running.counters()["vllm:prompt_tokens_total"] == 7.0
        assert running.log == tmp_path / "server.log"
        assert "fake server, model some/model" in running.log.read_text()
    assert gone(server.pid)
    assert gone(server.parent)


def test_facts_come_from_log_and_http(engine, fake, settings, tmp_path):
    """What the log does not say is asked of the server; the start-up is measured."""
    with launch_engine(engine, fake(), tmp_path, settings) as running:
        facts = running.facts
    assert (facts.engine_version, facts.kv_tokens, facts.max_concurrency) == ("9.9.9", 93184, 45.5)
    assert facts.max_model_len == 4096
    assert facts.weights_gib is None
    assert 0 < facts.startup_s < 60


def test_the_server_gets_its_environment_and_no_key_on_the_command_line(
    engine, fake, settings, tmp_path
):
    """The environment is ours, the suite's, a fresh key and a mark; the key is in no words."""
    path = tmp_path / "environment"
    spec = fake("--environment", str(path), FROM_SUITE="yes")
    keys = []
    for number in (1, 2):
        with launch_engine(engine, spec, tmp_path / str(number), settings) as running:
            environment = json.loads(path.read_text())
            command = (family.PROC / str(running.pid) / "cmdline").read_text()
            shown = repr(running)
        keys.append(environment["VLLM_API_KEY"])
        assert environment["FROM_SUITE"] == "yes"
        assert environment["PATH"] == os.environ["PATH"]
        assert environment["SPT_NOENV"] == "1"
        assert len(environment["LLMPERF_LAUNCH"]) == 16
        assert keys[-1] not in command
        assert keys[-1] not in shown
    assert keys[0] != keys[1]


def test_death_at_the_start_shows_the_servers_own_words(engine, fake, settings, tmp_path):
    """The message has server, exit code, the log's decisive line and the log's path."""
    spec = fake("--die", "error: argument --frobnicate: no such thing")
    with (
        pytest.raises(ServerStartError) as caught,
        launch_engine(engine, spec, tmp_path, settings),
    ):
        pass
    assert str(caught.value) == (
        "server 'fake' ended with exit code 3 before it was ready:\n"
        "    error: argument --frobnicate: no such thing\n"
        f"Log: {tmp_path / 'server.log'}"
    )


def test_the_key_is_not_quoted_from_a_log(engine, fake, settings, tmp_path):
    """A server that prints its environment and dies does not spread the key."""
    script = tmp_path / "leaky.py"
    script.write_text("import os\nprint('key', os.environ['VLLM_API_KEY'])\nraise SystemExit(1)\n")
    with (
        pytest.raises(ServerStartError, match=r"key \*\*\*"),
        launch_engine(replace(engine, script=script), fake(), tmp_path, settings),
    ):
        pass


def test_an_executable_that_cannot_run_is_an_error_of_the_start(engine, fake, settings, tmp_path):
    """What the operating system says about the executable is in the message."""

    class Broken(type(engine)):
        def command(self, spec, place):
            return replace(super().command(spec, place), argv=(str(tmp_path / "nothing"),))

    with (
        pytest.raises(
            ServerStartError, match=r"server 'fake': /.*/nothing cannot be started: .*No such file"
        ),
        launch_engine(Broken(), fake(), tmp_path, settings),
    ):
        pass


def test_a_server_that_hangs_is_ended_at_the_timeout(engine, fake, settings, tmp_path):
    """The message says what was missing, quotes the log's end, and names the option."""
    hasty = replace(settings, startup_timeout=1)
    with (
        pytest.raises(ServerStartError) as caught,
        launch_engine(engine, fake("--hang"), tmp_path, hasty),
    ):
        pass
    message = str(caught.value)
    assert "server 'fake' was not ready after 1 s: nothing listens on its port" in message
    assert "    fake server, model some/model" in message
    assert "--llmperf-startup-timeout" in message


def test_health_alone_is_not_ready(engine, fake, settings, tmp_path):
    """A server whose /health answers is waited for until it has answered a request."""
    with launch_engine(engine, fake("--busy", "3"), tmp_path, settings) as running:
        http.complete(running.target)
    hasty = replace(settings, startup_timeout=3)
    with (
        pytest.raises(ServerStartError, match=r"no request was answered: POST .* answered 503"),
        launch_engine(engine, fake("--busy", "100000"), tmp_path, hasty),
    ):
        pass


def test_an_unhealthy_server_is_not_ready(engine, fake, settings, tmp_path):
    """A /health that fails is named."""
    hasty = replace(settings, startup_timeout=3)
    with (
        pytest.raises(ServerStartError, match="its /health answers 500"),
        launch_engine(engine, fake("--unhealthy"), tmp_path, hasty),
    ):
        pass


def test_death_in_use_is_noticed(engine, fake, settings, tmp_path, gone):
    """check_alive tells how the server ended, with the reason from its log."""
    with launch_engine(engine, fake(), tmp_path, settings) as running:
        http.post(running.target, "/die", {"model": "some/model"})
        assert gone(running.pid)
        with pytest.raises(ServerDiedError) as caught:
            until_raised(running.check_alive)
    assert str(caught.value) == (
        "server 'fake' ended with exit code 7 while it was in use:\n"
        "    ValueError: told to die\n"
        f"Log: {tmp_path / 'server.log'}"
    )


def test_a_killed_server_names_the_signal(engine, fake, settings, tmp_path):
    """SIGKILL from elsewhere is what the kernel does for want of memory: the message says so."""
    with launch_engine(engine, fake(), tmp_path, settings) as running:
        os.kill(running.pid, signal.SIGKILL)
        with pytest.raises(ServerDiedError, match=r"was ended by SIGKILL .*for want of memory"):
            until_raised(running.check_alive)


def test_a_server_deaf_to_sigterm_is_killed(engine, fake, settings, tmp_path, gone):
    """After the grace comes SIGKILL, and the progress says so."""
    said: list[str] = []
    strict = replace(settings, stop_timeout=0.5, on_progress=said.append)
    with launch_engine(engine, fake("--ignore-term"), tmp_path, strict) as running:
        pass
    assert gone(running.pid)
    assert said == ["fake did not end within 0.5 s of SIGTERM and was killed"]


@pytest.mark.parametrize("how", ["--escape", "--daemon"])
def test_children_that_left_the_servers_session_are_ended(
    engine, fake, settings, tmp_path, gone, how
):
    """A child in a session of its own and an orphan, both deaf to SIGTERM, do not stay."""
    path = tmp_path / "escaped"
    with launch_engine(engine, fake(how, str(path)), tmp_path, settings):
        escaped = int(path.read_text())
        assert family.member(escaped).alive
    assert gone(escaped)


def test_an_error_of_the_body_is_kept(engine, fake, settings, tmp_path, gone):
    """What a test raises inside the context arrives outside, and the server is ended."""
    with (
        pytest.raises(KeyError, match="mine"),
        launch_engine(engine, fake(), tmp_path, settings) as running,
    ):
        raise KeyError("mine")
    assert gone(running.pid)


def test_a_port_that_is_asked_for_is_used(engine, fake, settings, tmp_path):
    """--port of the suite is the server's port."""
    with ports.reserve() as held:
        port = held.getsockname()[1]
    with launch_engine(engine, fake("--port", str(port)), tmp_path, settings) as running:
        assert running.target.port == port


def test_a_port_in_use_names_its_holder(engine, fake, settings, tmp_path):
    """Asking for a taken port is refused before anything starts."""
    with launch_engine(engine, fake(), tmp_path, settings) as first:
        spec = fake("--port", str(first.target.port), name="second")
        with (
            pytest.raises(PortInUseError) as caught,
            launch_engine(engine, spec, tmp_path / "second", settings),
        ):
            pass
    message = str(caught.value)
    assert f"server 'second' cannot use port {first.target.port}: process {first.pid} (" in message
    assert not (tmp_path / "second" / "server.log").exists()


def test_a_lost_race_for_the_port_is_run_again(engine, fake, settings, tmp_path):
    """A server that finds its chosen port in use gets another one, once."""
    said: list[str] = []
    told = replace(settings, on_progress=said.append)
    # Without SO_REUSEADDR this server cannot listen on a port that is held for it.
    with launch_engine(engine, fake("--no-reuse"), tmp_path, told) as running:
        http.complete(running.target)
    assert len(said) == 1
    assert said[0].startswith("server 'fake' did not get its port:\n    OSError: [Errno 98]")
    assert said[0].endswith("trying another port")


def test_a_port_lost_twice_is_an_error(engine, fake, settings, tmp_path):
    """A server that dies of its port again is no start."""
    spec = fake("--die", "OSError: [Errno 98] Address already in use")
    with (
        pytest.raises(PortInUseError, match="did not get its port"),
        launch_engine(engine, spec, tmp_path, settings),
    ):
        pass


def test_a_chat_model_is_ready_by_chat(engine, fake, settings, tmp_path):
    """A server without completions is asked through chat."""
    with launch_engine(engine, fake("--chat-only"), tmp_path, settings) as running:
        assert running.target.model == "some/model"


def test_a_model_is_taken_from_where_it_lies_here(engine, fake, settings, tmp_path):
    """--llmperf-model maps the suite's model to a folder of this runner."""
    here = replace(settings, models={"some/model": str(tmp_path / "folder")})
    with launch_engine(engine, fake(), tmp_path, here) as running:
        assert running.target.model == str(tmp_path / "folder")


def test_no_file_descriptor_is_left(engine, fake, settings, tmp_path):
    """Ten sessions' worth of launches would not run out of descriptors."""
    with launch_engine(engine, fake(), tmp_path, settings):
        pass
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with launch_engine(engine, fake(), tmp_path, settings):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_unknown_engine_answers_with_the_known(settings, tmp_path):
    """The catalog's engines are named."""
    with pytest.raises(UnknownNameError, match=r"attach.*vllm"):
        launch(ServerSpec.of("x", "vlm", "m"), tmp_path, settings)


def until_raised(check: Callable[[], None]) -> None:
    """Look for ten seconds, or until it raises: the supervisor needs a moment to tell."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        check()
        time.sleep(0.02)
