"""The port of a server: chosen and kept free for it, or asked for and found free."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import psutil

from pytest_llmperf.errors import PortInUseError, SpecError
from pytest_llmperf.launch import family
from pytest_llmperf.model.arguments import argument

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_llmperf.model.server import ServerSpec

HOST = "127.0.0.1"
LOOPBACK = {"127.0.0.1", "localhost", "::1", ""}
HIGHEST = 65_535


def reserve() -> socket.socket:
    """Return a socket bound to a free port of the loopback interface.

    While it is open nobody is given that port who asks for any; a server that sets
    SO_REUSEADDR, as they do, can still listen on it, since this socket does not.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((HOST, 0))
    return held


def asked_port(spec: ServerSpec) -> int | None:
    """Return the port that a suite's arguments give, None where the choice is free.

    Raise SpecError for what is no port, and for a host beyond the loopback interface.
    """
    host = argument(spec.arguments, "--host")
    if host is not None and host not in LOOPBACK:
        raise SpecError(
            f"server {spec.name!r}: take --host {host} out of its arguments; a launch is bound "
            f"to {HOST}, so that nothing else on the network can load or read it"
        )
    port = argument(spec.arguments, "--port")
    if port is None or port == "0":
        return None
    if not port.isdigit() or int(port) > HIGHEST:
        raise SpecError(f"server {spec.name!r}: --port is {port!r}, not a port's number")
    return int(port)


def check_free(port: int, server: str) -> None:
    """Raise PortInUseError, naming who holds the port, unless a server can listen on it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise in_use(port, server) from None
            raise PortInUseError(f"server {server!r} cannot use port {port}: {error}") from None


def in_use(port: int, server: str) -> PortInUseError:
    """Return the error that names who listens on the port."""
    holder = listener(port)
    who = f"process {holder}" if holder else "a process that cannot be seen from here"
    return PortInUseError(
        f"server {server!r} cannot use port {port}: {who} listens there. End that process, or "
        "take --port out of the server's arguments: a free one is then chosen"
    )


def listener(port: int) -> family.Member | None:
    """Return the process that listens on the port, where this user may know."""
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError, RuntimeError):
        return None  # sandboxes hide /proc/net
    for connection in connections:
        listens = connection.status == psutil.CONN_LISTEN
        if listens and connection.laddr and connection.laddr[1] == port and connection.pid:
            return family.member(connection.pid)
    return None


def stranger(port: int, server: int, relatives: Collection[int]) -> family.Member | None:
    """Return who answers on the port instead of the server: an older process, no relative.

    A wrapper may have a container's process listen, which is no relative but younger.
    """
    holder = listener(port)
    ours = family.member(server)
    if holder is None or ours is None or holder.pid in {server, *relatives}:
        return None
    return holder if holder.born < ours.born else None
