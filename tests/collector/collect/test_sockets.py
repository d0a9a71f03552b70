"""Ports: bound before anything starts, and an error that says who has one and what to do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from agentprof_collector.collect.sockets import NotBound, PortTaken, listening, target_of, url_of

LISTENER = """
import socket, sys
bound = socket.create_server(("127.0.0.1", 0))
print(bound.getsockname()[1], flush=True)
sys.stdin.read()
"""


def test_the_system_chooses_a_port_for_0() -> None:
    """And it is taken from then on."""
    with listening("127.0.0.1", 0, "--port") as first, listening("127.0.0.1", 0, "--port") as second:
        assert url_of(first) != url_of(second)
        assert url_of(first) == f"http://127.0.0.1:{first.getsockname()[1]}"
        with socket.create_connection(first.getsockname(), timeout=5):
            pass


def test_a_port_that_another_process_has_names_it() -> None:
    """With its program and id, and the two ways out."""
    with subprocess.Popen(
        [sys.executable, "-c", LISTENER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        with pytest.raises(PortTaken) as taken:
            listening("127.0.0.1", port, "--otlp-http-port")
        other.communicate("")
    said = str(taken.value)
    assert f"127.0.0.1:{port} is taken by " in said
    assert f"(process {other.pid})" in said
    assert "Stop it, or choose another port with --otlp-http-port" in said


def test_a_port_that_this_process_has_is_taken_too() -> None:
    """Two servers on one port would each get some of the requests."""
    with (
        listening("127.0.0.1", 0, "--port") as first,
        pytest.raises(PortTaken, match=rf"process {os.getpid()}\)"),
    ):
        listening("127.0.0.1", first.getsockname()[1], "--port")


def test_a_port_can_be_had_again_at_once() -> None:
    """Though connections of before are still being forgotten by the system."""
    first = listening("127.0.0.1", 0, "--port")
    address = first.getsockname()
    with socket.create_connection(address, timeout=5):
        accepted, _ = first.accept()
        accepted.close()  # the side that closes first waits
    first.close()
    listening("127.0.0.1", address[1], "--port").close()


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("no.such.host.invalid", "no address to listen on"),
        ("203.0.113.7", "cannot listen on 203.0.113.7"),
    ],
)
def test_addresses_of_others_cannot_be_listened_on(host: str, message: str) -> None:
    """The error names what was given, and the option."""
    with pytest.raises(NotBound, match=message) as error:
        listening(host, 0, "--port")
    assert "--host" in str(error.value)


def test_one_that_listens_everywhere_is_named_by_loopback() -> None:
    """Its own address is none that a program can connect to."""
    with listening("0.0.0.0", 0, "--port") as bound:
        assert target_of(bound) == f"127.0.0.1:{bound.getsockname()[1]}"


def test_addresses_of_ip6_stand_in_brackets() -> None:
    """As in every URL."""
    try:
        bound = listening("::1", 0, "--port")
    except NotBound:
        pytest.skip("this machine has no IPv6")
    with bound:
        assert url_of(bound) == f"http://[::1]:{bound.getsockname()[1]}"
