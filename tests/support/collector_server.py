"""A receiver of OTLP over HTTP on loopback: decodes what it takes, and answers as a test tells it to."""

from __future__ import annotations

import gzip
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE_S = 30.0


@dataclass
class Reply:
    """One answer; a request that is not answered with 200 is not kept."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    hold: threading.Event | None = None
    """Answer only when it is set."""
    hang_up: bool = False
    """Close the connection without an answer."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""
        if not isinstance(sys.exception(), (OSError, ValueError)):
            super().handle_error(request, client_address)


class CollectorServer:
    """Takes spans until it is stopped; may be started again on the same port."""

    def __init__(self, port: int = 0, *, reply: Callable[[int], Reply] = lambda number: Reply()) -> None:
        """Args:
        reply: Gives the answer to the nth request, counted from 0.
        """
        self.names: list[str] = []
        """Of the spans taken, in order."""
        self.spans: list[Any] = []
        self.requests: list[dict[str, str]] = []
        """Headers of all requests, in lower case."""
        self.changed = threading.Condition()
        self._reply = reply
        self._port = port
        self._connections: set[Any] = set()
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1/traces"

    def start(self) -> CollectorServer:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                owner._connections.add(self.connection)

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                owner._handle(self)

        self._server = _Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def stop(self) -> None:
        """No new connections, and the open ones are cut."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            for connection in list(self._connections):
                with_suppressed_close(connection)
            self._connections.clear()

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self.changed:
            number = len(self.requests)
            self.requests.append(headers)
            self.changed.notify_all()
        reply = self._reply(number)
        if reply.hold is not None:
            reply.hold.wait(PATIENCE_S)
        if reply.hang_up:
            handler.close_connection = True
            return
        if reply.status == 200:
            self._keep(body, headers.get("content-encoding"))
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(reply.body)))
        handler.end_headers()
        handler.wfile.write(reply.body)

    def _keep(self, body: bytes, encoding: str | None) -> None:
        if encoding == "gzip":
            body = gzip.decompress(body)
        elif encoding == "deflate":
            body = zlib.decompress(body)
        request = ExportTraceServiceRequest.FromString(body)
        spans = [span for r in request.resource_spans for s in r.scope_spans for span in s.spans]
        with self.changed:
            self.spans += spans
            self.names += [span.name for span in spans]
            self.changed.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something about the requests or spans is so."""
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_S), f"{len(self.names)} spans came"

    def __enter__(self) -> CollectorServer:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()


def with_suppressed_close(connection: Any) -> None:
    """Cut a connection, whoever has closed it already."""
    import socket

    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


@contextmanager
def free_port() -> Iterator[int]:
    """A port nobody listens on now: bound, so that nobody else gets it, until the block ends."""
    import socket

    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
