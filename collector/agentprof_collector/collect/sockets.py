"""Listening sockets, bound before anything starts; a port that is taken is answered with by whom."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

from agentprof_collector.errors import AgentprofError

_LISTEN = "0A"
"""State of a listening socket in /proc/net/tcp."""


class PortTaken(AgentprofError):
    """Another process listens there."""

    def __init__(self, host: str, port: int, option: str) -> None:
        holder = _holder(port)
        super().__init__(
            f"{host}:{port} is taken{f' by {holder}' if holder else ''}. Stop it, "
            f"or choose another port with {option} (0: the system chooses)."
        )


class NotBound(AgentprofError):
    """The address cannot be listened on."""


def listening(host: str, port: int, option: str) -> socket.socket:
    """A bound TCP socket.

    Args:
        host: name or address.
        port: 0: the system chooses.
        option: what the user gives to choose another port, for the error.

    Raises:
        PortTaken: another process listens there.
        NotBound: the address is not of this machine, or not allowed.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise NotBound(
            f"{host} is no address to listen on ({error.strerror or error}). See --host."
        ) from error
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(128)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(host, port, option) from error
        raise NotBound(
            f"cannot listen on {host}:{port} ({error.strerror or error}). See --host and {option}."
        ) from error
    return bound


def url_of(bound: socket.socket) -> str:
    """`http://host:port` of a socket; one that listens everywhere is named by loopback."""
    return f"http://{target_of(bound)}"


def target_of(bound: socket.socket) -> str:
    """`host:port` of a socket; one that listens everywhere is named by loopback."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _holder(port: int) -> str | None:
    """`NAME (process PID)` of who listens on a port, as far as Linux lets us see."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(open_file.readlink()) in inodes for open_file in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (process {process.name})"
        except OSError:
            continue
    return None
