from __future__ import annotations

import os
import socket

import pytest

from pytest_llmperf.errors import PortInUseError, SpecError
from pytest_llmperf.launch import family, ports
from pytest_llmperf.model.server import ServerSpec


def spec(*arguments: str) -> ServerSpec:
    return ServerSpec.of("base", "vllm", "m", arguments)


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_reserved_port_is_given_to_nobody_else():
    """Who asks for any port does not get it; who asks for this one can listen on it."""
    with ports.reserve() as held:
        port = held.getsockname()[1]
        others = [ports.reserve() for _ in range(200)]
        assert port not in {other.getsockname()[1] for other in others}
        for other in others:
            other.close()
        with socket.create_server(("127.0.0.1", port)) as server:
            assert server.getsockname()[1] == port


@pytest.mark.parametrize(
    ("arguments", "port"),
    [((), None), (("--port", "0"), None), (("--port=8001",), 8001), (("--port", "65535"), 65535)],
)
def test_the_suites_port(arguments, port):
    """--port is read as vLLM reads it; 0 means any."""
    assert ports.asked_port(spec(*arguments)) == port


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_what_is_no_port_is_refused(port):
    """The message has server and value."""
    with pytest.raises(SpecError, match=f"server 'base': --port is '{port}'"):
        ports.asked_port(spec(f"--port={port}"))


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::"])
def test_a_host_beyond_loopback_is_refused(host):
    """A launch does not listen to the network."""
    with pytest.raises(SpecError, match=f"take --host {host} out"):
        ports.asked_port(spec("--host", host))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_loopback_host_is_accepted(host):
    """Saying what happens anyway does no harm."""
    assert ports.asked_port(spec("--host", host)) is None


def test_a_taken_port_names_its_holder(listening):
    """The error has port, server and process."""
    own = family.member(os.getpid())
    with pytest.raises(PortInUseError) as caught:
        ports.check_free(listening, "base")
    assert str(caught.value) == (
        f"server 'base' cannot use port {listening}: process {own} listens there. End that "
        "process, or take --port out of the server's arguments: a free one is then chosen"
    )


def test_a_free_port_passes():
    """A port that nobody listens on is free, also one that was used a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()
    ports.check_free(port, "base")


def test_a_stranger_is_older_and_no_relative(listening, monkeypatch):
    """Another process on the server's port is told from the server, its kin, and a container."""
    own = os.getpid()
    young = family.Member(99, 1, "S", 2**60, "server")
    look = family.member
    monkeypatch.setattr(family, "member", lambda pid: young if pid == 99 else look(pid))
    assert ports.stranger(listening, 99, ()).pid == own
    assert ports.stranger(listening, 99, {own}) is None
    assert ports.stranger(listening, own, ()) is None
    old = family.Member(99, 1, "S", 0, "server")
    monkeypatch.setattr(family, "member", lambda pid: old if pid == 99 else look(pid))
    assert ports.stranger(listening, 99, ()) is None
