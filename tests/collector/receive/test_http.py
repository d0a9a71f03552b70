"""The OTLP/HTTP receiver, asked over the wire: what it takes, what it refuses, and how it says so."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from agentprof_collector.errors import StoreUnusable
from agentprof_collector.receive import Batch
from agentprof_collector.receive import http as receiver
from agentprof_collector.receive.http import TRACES_PATH, HttpReceiver, Refused, Reply, answer, unpacked

PROTOBUF, JSON = "application/x-protobuf", "application/json"


def request(*span_ids: bytes) -> bytes:
    """A request in protobuf with a span for each id."""
    message = ExportTraceServiceRequest()
    spans = message.resource_spans.add().scope_spans.add().spans
    for span_id in span_ids:
        spans.add(trace_id=b"t" * 16, span_id=span_id, name="n", start_time_unix_nano=5)
    return message.SerializeToString()


def json_request(*span_ids: str) -> bytes:
    """The same in JSON."""
    spans = [{"traceId": "7" * 32, "spanId": i, "startTimeUnixNano": "5"} for i in span_ids]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


SPAN = request(b"s" * 8)


class Kept:
    """What was accepted."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.failure: Exception | None = None
        self.server = HttpReceiver({TRACES_PATH: self.answer})
        self.url = self.server.url

    def answer(self, content_type: str, encoding: str, body: bytes) -> Reply:
        return answer(content_type, encoding, body, self.accept)

    def accept(self, batch: Batch) -> None:
        if self.failure is not None:
            raise self.failure
        self.batches.append(batch)

    @property
    def span_ids(self) -> list[str]:
        return [span.span_id for batch in self.batches for span in batch.spans]


@pytest.fixture
def kept() -> Iterator[Kept]:
    """A receiver that keeps what comes in memory."""
    opened = Kept()
    yield opened
    opened.server.close()


class Answered:
    """An answer and its Status or response, read in its own type."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def refusal(self) -> tuple[int, str]:
        if self.headers["content-type"] == JSON:
            said = json.loads(self.body)
            return said["code"], said["message"]
        status = Status.FromString(self.body)
        return status.code, status.message


def ask(kept: Kept, body: bytes, path: str = TRACES_PATH, method: str = "POST", **headers: str) -> Answered:
    """One request on a connection of its own."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection(kept.url.removeprefix("http://"), timeout=20)
    try:
        connection.request(method, path, body, {"content-type": PROTOBUF} | named)
        return Answered(connection.getresponse())
    finally:
        connection.close()


@pytest.mark.parametrize("encoding", ["", "identity", "gzip"])
@pytest.mark.parametrize("content_type", [PROTOBUF, JSON, "application/json; charset=utf-8"])
def test_a_request_is_stored_and_answered_in_its_own_type(
    kept: Kept, content_type: str, encoding: str
) -> None:
    """Success is an empty response, without a partial success."""
    body = SPAN if content_type == PROTOBUF else json_request("abcdabcdabcdabcd")
    sent = gzip.compress(body) if encoding == "gzip" else body
    answered = ask(kept, sent, content_type=content_type, content_encoding=encoding)
    assert (answered.status, len(kept.span_ids)) == (200, 1)
    media_type = content_type.partition(";")[0]
    assert answered.headers["content-type"] == media_type
    assert answered.body == (b"" if media_type == PROTOBUF else b"{}")


def test_an_empty_request_succeeds(kept: Kept) -> None:
    """In both types."""
    assert ask(kept, b"").status == 200
    assert ask(kept, b"{}", content_type=JSON).status == 200


def test_spans_that_cannot_be_kept_are_told(kept: Kept) -> None:
    """The rest is stored; the request must not be sent again."""
    answered = ask(kept, request(b"s" * 8, b"", b"\0" * 8))
    response = ExportTraceServiceResponse.FromString(answered.body)
    assert (answered.status, response.partial_success.rejected_spans) == (200, 2)
    assert "cannot be kept" in response.partial_success.error_message
    answered = ask(kept, json_request("", "00", "ab"), content_type=JSON)
    assert json.loads(answered.body)["partialSuccess"]["rejectedSpans"] == "2"
    assert kept.span_ids == [(b"s" * 8).hex(), "ab"]


REFUSED: list[tuple[int, int, bytes, dict[str, str]]] = [
    (400, 3, b"\xff\xff", {}),
    (400, 3, b"\x0a", {}),
    (400, 3, b"not json", {"content_type": JSON}),
    (400, 3, b'{"spans": []}', {"content_type": JSON}),
    (400, 3, b"[" * 100_000, {"content_type": JSON}),
    (400, 3, SPAN, {"content_encoding": "gzip"}),
    (400, 3, gzip.compress(SPAN)[:-9], {"content_encoding": "gzip"}),
    (413, 8, gzip.compress(bytes(receiver.BODY_LIMIT + 1)), {"content_encoding": "gzip"}),
    (415, 3, SPAN, {"content_encoding": "br"}),
    (415, 3, SPAN, {"content_type": "text/plain"}),
    (415, 3, SPAN, {"content_type": ""}),
    (404, 5, SPAN, {"path": "/v1/nothing"}),
    (405, 12, b"", {"method": "GET"}),
    (405, 12, b"", {"method": "PUT"}),
    (404, 5, b"", {"method": "GET", "path": "/"}),
]


@pytest.mark.parametrize(("status", "code", "body", "how"), REFUSED)
def test_what_is_refused(kept: Kept, status: int, code: int, body: bytes, how: dict[str, str]) -> None:
    """With a Status in the type of the request; nothing is stored, and the next request is answered."""
    answered = ask(kept, body, **how)
    assert answered.status == status
    assert answered.refusal[0] == code
    assert answered.refusal[1]
    assert (answered.headers["content-type"] == JSON) == (how.get("content_type") == JSON)
    assert (answered.headers.get("allow") == "POST") == (status == 405)
    assert kept.batches == []
    assert ask(kept, SPAN).status == 200


def test_a_body_over_the_limit_is_not_read(kept: Kept) -> None:
    """Its announced length is enough."""
    answered = ask(kept, b"", content_length=str(receiver.BODY_LIMIT + 1))
    assert (answered.status, answered.refusal[0]) == (413, 8)
    assert answered.headers["connection"] == "close"


def test_a_store_that_fails_asks_to_try_again(kept: Kept, tmp_path: Any) -> None:
    """503 with Retry-After where it may pass; 500 for a mistake of ours, without its text."""
    kept.failure = StoreUnusable(tmp_path, "cannot be written (disk full)")
    answered = ask(kept, SPAN)
    assert (answered.status, answered.headers["retry-after"]) == (503, "1")
    assert "disk full" in answered.refusal[1]
    kept.failure = KeyError("a secret")
    answered = ask(kept, SPAN)
    assert (answered.status, answered.refusal) == (500, (13, "KeyError while storing the spans"))


def test_one_connection_takes_many_requests(kept: Kept) -> None:
    """Kept alive between them, also for a chunked body."""
    connection = http.client.HTTPConnection(kept.url.removeprefix("http://"), timeout=20)
    headers = {"content-type": PROTOBUF}
    for _ in range(3):
        connection.request("POST", TRACES_PATH, SPAN, headers)
        assert connection.getresponse().read() == b""
    used = connection.sock
    halves = iter((SPAN[:10], SPAN[10:]))
    connection.request("POST", TRACES_PATH, halves, headers, encode_chunked=True)
    assert connection.getresponse().status == 200
    assert connection.sock is used
    assert len(kept.span_ids) == 4
    connection.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-length: 5 5\r\n\r\n",
        b"POST /v1/traces HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n",
        b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5000001\r\n",
        b"BREW /v1/traces HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/traces\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"POST /v1/traces HTTP/1.1\r\n" + b"h: x\r\n" * 200 + b"\r\n",
        b"POST /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_hostile_requests_are_answered_and_closed(kept: Kept, sent: bytes) -> None:
    """Malformed framing gets an error and no second request on the connection."""
    host, port = kept.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        got = b""
        try:
            while piece := connection.recv(65_536):
                got += piece
        except ConnectionResetError:  # it did not read all that was sent
            pass
    assert got == b"" or b" 4" in got[:14] or b" 5" in got[:14] or Status.FromString(got)
    assert got.count(b"HTTP/1.1 ") <= 1
    assert ask(kept, SPAN).status == 200
    assert len(kept.span_ids) == 1


@given(
    st.binary(max_size=300),
    st.sampled_from([PROTOBUF, JSON]),
    st.sampled_from(["", "gzip"]),
    st.booleans(),
)
def test_any_bytes_are_answered(body: bytes, content_type: str, encoding: str, packed: bool) -> None:
    """200 or 400, never a crash."""
    taken: list[Batch] = []
    reply = answer(content_type, encoding, gzip.compress(body) if packed else body, taken.append)
    assert reply.status in (200, 400)
    assert (reply.status == 200) == bool(taken)


def test_exporters_of_the_sdk_are_understood(kept: Kept) -> None:
    """As they are, compressed or not."""
    for compression in (Compression.NoCompression, Compression.Gzip):
        exporter = OTLPSpanExporter(endpoint=kept.url + TRACES_PATH, compression=compression)
        span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s")
        span.end()
        assert exporter.export([span]) is SpanExportResult.SUCCESS  # type: ignore[list-item]
        exporter.shutdown()
    assert len(kept.span_ids) == 2


def test_closing_waits_for_what_is_being_answered(kept: Kept) -> None:
    """An acknowledged span is stored, and one being stored is acknowledged."""
    inside, go_on = threading.Event(), threading.Event()
    accept = kept.accept

    def slow(batch: Batch) -> None:
        inside.set()
        assert go_on.wait(20)
        accept(batch)

    kept.accept = slow  # type: ignore[method-assign]
    statuses: list[int] = []
    asking = threading.Thread(target=lambda: statuses.append(ask(kept, SPAN).status))
    asking.start()
    assert inside.wait(20)
    closing = threading.Thread(target=kept.server.close)
    closing.start()
    go_on.set()
    closing.join(20)
    asking.join(20)
    assert (statuses, len(kept.span_ids)) == ([200], 1)
    with pytest.raises(OSError, match="refused"):
        ask(kept, SPAN)


def test_a_page_of_a_browser_may_not_write(kept: Kept) -> None:
    """Neither from another origin nor under a name that was made to point here."""
    assert ask(kept, request(b"12345678"), host="evil.example:4318").status == 403
    assert ask(kept, request(b"12345678"), origin="http://evil.example").status == 403
    assert ask(kept, request(b"12345678"), host="localhost:4318").status == 200


def test_slow_senders_hold_nobody_up(kept: Kept) -> None:
    """More of them than requests are handled at once; they have sent their headers and no body."""
    slow = [socket.create_connection(kept.server._server.server_address[:2]) for _ in range(20)]
    try:
        for connection in slow:
            connection.sendall(b"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n")
        assert ask(kept, request(b"12345678")).status == 200
    finally:
        for connection in slow:
            connection.close()


def test_a_body_of_very_many_gzip_members_is_refused_at_once() -> None:
    """Each would cost a copy of all that follow it."""
    with pytest.raises(Refused, match="members"):
        unpacked("gzip", gzip.compress(b"") * 2000)
