"""OTLP over HTTP: what to answer to a request, and a small server that asks for requests.

`answer` knows the protocol and no server; a span is acknowledged only when `accept` has returned.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from agentprof_collector.errors import StoreError
from agentprof_collector.receive import Batch
from agentprof_collector.receive.otlp import NotOtlp, decode_json, decode_protobuf

TRACES_PATH: Final = "/v1/traces"
BODY_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a request, as sent and again when unpacked."""
_IDLE_S: Final = 30.0
"""How long a connection may say nothing."""
_CLOSING_S: Final = 10.0
"""How long the end may wait for requests that are being answered."""
_TRAILERS: Final = 100
_MEMBERS: Final = 1000
"""Parts of one gzip body: writers make one; each costs a copy of what follows it."""
_LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_AT_ONCE: Final = 8
"""Requests read and stored at the same time; further ones wait."""

_PROTOBUF: Final = "application/x-protobuf"
_JSON: Final = "application/json"
_GRPC_CODES: Final = {400: 3, 403: 7, 404: 5, 405: 12, 411: 3, 413: 8, 415: 3, 500: 13, 503: 14}
_GZIP_FRAMING: Final = 31

Accept = Callable[[Batch], None]
"""Stores spans durably, or raises."""


class Reply(NamedTuple):
    """An answer to an HTTP request."""

    status: int
    headers: dict[str, str]
    body: bytes


class Refused(Exception):
    """A request that is not accepted, with the status that says so."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def answer(content_type: str, encoding: str, body: bytes, accept: Accept) -> Reply:
    """The answer to a POST of traces, given after its spans are stored.

    Args:
        content_type: as sent; protobuf or JSON.
        encoding: Content-Encoding as sent; gzip or none.
        body: as sent.
        accept: takes the spans.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    try:
        if media_type not in (_PROTOBUF, _JSON):
            raise Refused(415, f"expected Content-Type {_PROTOBUF} or {_JSON}")
        batch = _decode(media_type, unpacked(encoding, body))
        try:
            accept(batch)
        except StoreError as error:
            raise Refused(503, str(error), retry_after="1") from error
    except Refused as refused:
        return refusal(refused, content_type)
    except Exception as error:  # noqa: BLE001 (whatever a request holds, the server goes on)
        return refusal(Refused(500, f"{type(error).__name__} while storing the spans"), content_type)
    return _accepted(media_type, batch.skipped)


def refusal(refused: Refused, content_type: str = "") -> Reply:
    """The answer to a request that is not accepted: a Status, in the type of the request."""
    is_json = content_type.partition(";")[0].strip().lower() == _JSON
    code = _GRPC_CODES.get(refused.status, 2)
    if is_json:
        body = msgspec.json.encode({"code": code, "message": str(refused)})
    else:
        body = Status(code=code, message=str(refused)).SerializeToString()
    return Reply(refused.status, {"content-type": _JSON if is_json else _PROTOBUF, **refused.headers}, body)


def _accepted(media_type: str, skipped: int) -> Reply:
    message = "spans without trace id, span id or start cannot be kept"
    if media_type == _JSON:
        said = {"partialSuccess": {"rejectedSpans": str(skipped), "errorMessage": message}} if skipped else {}
        return Reply(200, {"content-type": _JSON}, msgspec.json.encode(said))
    response = ExportTraceServiceResponse()
    if skipped:
        response.partial_success.rejected_spans = skipped
        response.partial_success.error_message = message
    return Reply(200, {"content-type": _PROTOBUF}, response.SerializeToString())


def _decode(media_type: str, body: bytes) -> Batch:
    try:
        return decode_json(body) if media_type == _JSON else decode_protobuf(body)
    except NotOtlp as error:
        raise Refused(400, str(error)) from error
    except RecursionError as error:
        raise Refused(400, "the message is nested too deeply") from error


def unpacked(encoding: str, body: bytes) -> bytes:
    """The body without its compression.

    Raises:
        Refused: damaged, too large, or packed in another way.
    """
    if len(body) > BODY_LIMIT:
        raise _too_large()
    kind = encoding.strip().lower()
    if kind in ("", "identity", "none"):
        return body
    if kind != "gzip":
        raise Refused(415, "expected Content-Encoding gzip or none")
    parts: list[bytes] = []
    size = 0
    rest = body
    try:
        while rest:
            if len(parts) >= _MEMBERS:
                raise Refused(400, f"the gzip data has more than {_MEMBERS} members")
            member = zlib.decompressobj(_GZIP_FRAMING)
            parts.append(member.decompress(rest, BODY_LIMIT - size + 1))
            size += len(parts[-1])
            if size > BODY_LIMIT:
                raise _too_large()
            if not member.eof:
                raise Refused(400, "the gzip data is cut off")
            rest = member.unused_data
    except zlib.error as error:
        raise Refused(400, f"the gzip data is damaged ({error})") from error
    return b"".join(parts)


def _too_large() -> Refused:
    return Refused(413, f"a request may have {BODY_LIMIT} bytes, before and after compression")


class HttpReceiver:
    """An OTLP/HTTP receiver on this machine, with a thread a connection, until closed.

    Args:
        routes: what answers a POST to a path: content type, content encoding, body -> reply.
        port: 0: the system chooses.
    """

    def __init__(self, routes: Mapping[str, Callable[[str, str, bytes], Reply]], port: int = 0) -> None:
        self._closed = False
        self._server = _Server(("127.0.0.1", port), _Connection)
        self._server.routes = routes
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="agentprof-receive", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """`http://host:port`."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        """Take no more connections, finish the requests that are being answered, and cut the rest."""
        if self._closed:
            return
        self._closed = True
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    routes: Mapping[str, Callable[[str, str, bytes], Reply]]

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.slots = threading.BoundedSemaphore(_AT_ONCE)
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()

    def server_bind(self) -> None:
        # Without the look-up of a host name that the base class does.
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Waits for the answers that are being made."""
        super().server_close()
        until = time.monotonic() + _CLOSING_S
        for _ in range(_AT_ONCE):
            self.slots.acquire(timeout=max(0.0, until - time.monotonic()))
        with self._guard:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves in the middle is no event."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "agentprof"
    sys_version = ""
    timeout = _IDLE_S
    disable_nagle_algorithm = True
    server: _Server

    def _check_sender(self) -> None:
        """A page in a browser may not write here, also where it made its own name point to this machine."""
        host = self.headers.get("host", "").strip().lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self.headers.get("origin") is not None or name not in _LOCAL_HOSTS | {""}:
            raise Refused(403, "only programs of this machine may send spans here")

    def do_POST(self) -> None:
        route = self.server.routes.get(self._path())
        content_type = self.headers.get("content-type", "")
        if route is None:
            self._send(refusal(Refused(404, f"nothing is received at {self._path()}"), content_type), False)
            return
        try:
            self._check_sender()
            body = self._body()
        except Refused as refused:
            self._send(refusal(refused, content_type), False)
            return
        # A slow sender holds no place: only what is decoded and stored at once is bounded.
        with self.server.slots:
            self._send(route(content_type, self.headers.get("content-encoding", ""), body), True)

    def do_GET(self) -> None:
        if self._path() in self.server.routes:
            self._send(refusal(Refused(405, "expected POST", allow="POST")), False)
        else:
            self._send(refusal(Refused(404, f"nothing is served at {self._path()}")), False)

    do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the streams of this process belong to the user."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class refuses by itself, in our form."""
        self._send(refusal(Refused(code, message or "bad request")), False)

    def _path(self) -> str:
        return self.path.partition("?")[0].rstrip("/") or "/"

    def _send(self, reply: Reply, keep: bool) -> None:
        """A body that was not read would be taken for the next request: then the connection ends."""
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(reply.body)))
        if not keep:
            self.send_header("connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").strip().lower() == "chunked":
            return self._chunked_body()
        length = self.headers.get("content-length")
        if length is None:
            raise Refused(411, "expected Content-Length")
        if not re.fullmatch(r"[0-9]{1,18}", length):
            raise Refused(400, "expected a number as Content-Length")
        if int(length) > BODY_LIMIT:
            raise _too_large()
        return self._exactly(int(length))

    def _chunked_body(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            head = self.rfile.readline(1024).partition(b";")[0].strip()
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", head):
                raise Refused(400, "the chunked body is malformed")
            length = int(head, 16)
            if length == 0:
                break
            size += length
            if size > BODY_LIMIT:
                raise _too_large()
            parts.append(self._exactly(length))
            self.rfile.readline(16)
        for _ in range(_TRAILERS):
            if not self.rfile.readline(65_536).strip():
                return b"".join(parts)
        raise Refused(400, "the chunked body has no end")

    def _exactly(self, length: int) -> bytes:
        data = self.rfile.read(length)
        if len(data) < length:
            raise Refused(400, "the body is shorter than announced")
        return data
