"""A model endpoint over TLS on loopback, with a handshake as slow as a test wants it, and a proxy to reach it by."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from support.loopback import Loopback
from support.model_server import ModelServer

CERTIFICATE = Path(__file__).with_name("localhost.pem")
"""For localhost and 127.0.0.1, signed by itself, with its key, which protects nothing."""


def trusting() -> ssl.SSLContext:
    """What a client needs to trust it."""
    return ssl.create_default_context(cafile=str(CERTIFICATE))


class TlsModelServer(ModelServer):
    """The model endpoint over TLS."""

    def __init__(self, handshake_s: float) -> None:
        super().__init__()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server = self._server
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        answer = server.finish_request

        def after_handshake(request: Any, address: Any) -> None:
            select.select([request], [], [])  # the client has begun: what follows is part of what it measures
            time.sleep(handshake_s)
            request.do_handshake()
            answer(request, address)

        server.finish_request = after_handshake  # type: ignore[method-assign]

    @property
    def url(self) -> str:
        """Base URL for a client."""
        return super().url.replace("http:", "https:")


class _Tunnel(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_CONNECT(self) -> None:
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as beyond:
            self.send_response(200)
            self.end_headers()
            there = threading.Thread(target=_copy, args=(self.connection, beyond))
            there.start()
            _copy(beyond, self.connection)
            there.join()
        self.close_connection = True


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class TunnelProxy(Loopback):
    """A proxy that passes connections through."""

    def __init__(self) -> None:
        super().__init__(_Tunnel)
