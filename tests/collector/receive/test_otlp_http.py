"""OTLP over HTTP, asked over the wire: what is taken, what is refused, and how that is said."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
from collections.abc import Sequence

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from support.collecting import (
    JSON,
    LOGS,
    METRICS,
    PROTOBUF,
    SPAN,
    TRACES,
    Collected,
    collecting,
    json_request,
    refusal,
    request,
)

from agentprof.model import RawSpan
from agentprof_collector.collect.collector import Hooks
from agentprof_collector.errors import StoreNotWritten
from agentprof_collector.receive.exchange import BODY_LIMIT
from agentprof_collector.stores import Store


@pytest.mark.parametrize("encoding", ["", "identity", "gzip"])
@pytest.mark.parametrize("content_type", [PROTOBUF, JSON, "application/json; charset=utf-8"])
def test_a_request_is_stored_and_answered_in_its_own_type(
    collected: Collected, content_type: str, encoding: str
) -> None:
    """Success is an empty response, without a partial success."""
    body = SPAN if content_type == PROTOBUF else json_request((b"s" * 8).hex())
    sent = gzip.compress(body) if encoding == "gzip" else body
    answered = collected.send(sent, content_type=content_type, content_encoding=encoding)
    assert (answered.status, collected.span_ids) == (200, [(b"s" * 8).hex()])
    assert collected.kept() == collected.span_ids
    media_type = content_type.partition(";")[0]
    assert answered.headers["content-type"] == media_type
    assert answered.body == (b"" if media_type == PROTOBUF else b"{}")


@pytest.mark.parametrize("path", [TRACES, LOGS, METRICS])
def test_an_empty_request_succeeds(collected: Collected, path: str) -> None:
    """In both types."""
    assert collected.send(b"", path).status == 200
    answered = collected.send(b"{}", path, content_type=JSON)
    assert (answered.status, answered.body) == (200, b"{}")


def test_the_port_of_the_page_takes_spans_too(collected: Collected) -> None:
    """So that one address is enough."""
    answered = collected.pages.ask(TRACES, "POST", SPAN, content_type=PROTOBUF)
    assert (answered.status, len(collected.received)) == (200, 1)


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_wrong_method_is_told_the_right_one(collected: Collected, method: str) -> None:
    """Whatever the type of what it sends."""
    answered = collected.otlp.ask(TRACES, method)
    assert (answered.status, answered.headers["allow"]) == (405, "POST")


def test_a_slash_at_the_end_is_the_same_address(collected: Collected) -> None:
    """On both ports; nobody is sent elsewhere."""
    for server in (collected.otlp, collected.pages):
        assert server.ask(TRACES + "/", "POST", SPAN, content_type=PROTOBUF).status == 200
    assert len(collected.received) == 2


@pytest.mark.parametrize("start_ns", ["9223372036854775808", "-1"])
def test_a_start_that_is_no_time_is_told(collected: Collected, start_ns: str) -> None:
    """The span is left out."""
    sent = json_request("ab").replace(b'"5"', f'"{start_ns}"'.encode())
    answered = collected.send(sent, content_type=JSON)
    assert answered.document["partialSuccess"]["rejectedSpans"] == "1"
    assert "a start that is a time" in answered.document["partialSuccess"]["errorMessage"]


def test_spans_that_cannot_be_kept_are_told(collected: Collected) -> None:
    """The rest is stored; the request must not be sent again."""
    answered = collected.send(request(b"s" * 8, b"", b"\0" * 8))
    response = ExportTraceServiceResponse.FromString(answered.body)
    assert (answered.status, response.partial_success.rejected_spans) == (200, 2)
    why = "spans without trace id, span id or a start that is a time cannot be kept"
    assert response.partial_success.error_message == why
    answered = collected.send(json_request("", "00", "ab"), content_type=JSON)
    assert answered.document["partialSuccess"]["rejectedSpans"] == "2"
    assert "cannot be kept" in answered.document["partialSuccess"]["errorMessage"]
    assert collected.span_ids == [(b"s" * 8).hex(), "ab"]


def test_unknown_fields_and_short_ids_are_taken(collected: Collected) -> None:
    """A newer sender may say more; ids of any length are ids."""
    newer = SPAN + b"\xfa\x3e\x03new"  # field 1007
    assert collected.send(newer).status == 200
    span = {"traceId": TRACE_TEXT, "spanId": "07", "startTimeUnixNano": 5, "later": [1]}
    sent = {"resourceSpans": [{"scopeSpans": [{"spans": [span], "x": {}}], "y": 1}], "z": None}
    assert collected.send(json.dumps(sent).encode(), content_type=JSON).status == 200
    assert collected.span_ids == [(b"s" * 8).hex(), "07"]


TRACE_TEXT = (b"t" * 16).hex()

REFUSED: list[tuple[int, int, bytes, dict[str, str]]] = [
    (400, 3, b"\xff\xff", {}),
    (400, 3, b"\x0a", {}),
    (400, 3, b"\xff\xff", {"path": LOGS}),
    (400, 3, b"\xff\xff", {"path": METRICS}),
    (400, 3, b"not json", {"content_type": JSON}),
    (400, 3, b"not json", {"content_type": JSON, "path": LOGS}),
    (400, 3, b'{"resourceMetrics": 5}', {"content_type": JSON, "path": METRICS}),
    (400, 3, b'{"spans": []}', {"content_type": JSON}),
    (400, 3, b'{"res\xf0Spans": []}', {"content_type": JSON}),
    (400, 3, b"[" * 100_000, {"content_type": JSON}),
    (400, 3, b'{"resourceLogs":' + b"[" * 100_000, {"content_type": JSON, "path": LOGS}),
    (400, 3, SPAN, {"content_encoding": "gzip"}),
    (400, 3, gzip.compress(SPAN)[:-9], {"content_encoding": "gzip"}),
    (400, 3, gzip.compress(b"") * 2000, {"content_encoding": "gzip"}),
    (413, 8, gzip.compress(bytes(BODY_LIMIT + 1)), {"content_encoding": "gzip"}),
    (413, 8, gzip.compress(bytes(BODY_LIMIT + 1)), {"content_encoding": "gzip", "content_type": JSON}),
    (415, 3, SPAN, {"content_encoding": "br"}),
    (415, 3, SPAN, {"content_encoding": "gzip, gzip"}),
    (415, 3, SPAN, {"content_type": "text/plain"}),
    (415, 3, SPAN, {"content_type": ""}),
    (404, 5, SPAN, {"path": "/v1/nothing"}),
    (404, 5, SPAN, {"path": "/v1/traces/../traces"}),
    (405, 12, b"", {"method": "GET"}),
    (405, 12, b"", {"method": "GET", "content_type": ""}),
    (405, 12, b"", {"method": "PUT", "content_type": "text/plain"}),
    (405, 12, b"", {"method": "PUT"}),
    (405, 12, b"", {"method": "OPTIONS", "path": METRICS}),
    (404, 5, b"", {"method": "GET", "path": "/"}),
    (403, 7, SPAN, {"host": "evil.example:4318"}),
    (403, 7, SPAN, {"host": ""}),
    (403, 7, SPAN, {"origin": "http://evil.example"}),
    (403, 7, SPAN, {"origin": "http://localhost", "host": "localhost"}),
]


@pytest.mark.parametrize(("status", "code", "body", "how"), REFUSED)
def test_what_is_refused(
    collected: Collected, status: int, code: int, body: bytes, how: dict[str, str]
) -> None:
    """With a Status in the type of the request; nothing is stored, and the next request is answered."""
    answered = collected.send(body, **how)
    assert answered.status == status
    said_code, message = refusal(answered)
    assert said_code == code
    assert message
    assert (answered.headers["content-type"] == JSON) == (how.get("content_type") == JSON)
    assert (answered.headers.get("allow") == "POST") == (status == 405)
    assert collected.received == []
    assert collected.send(SPAN, host="localhost:4318").status == 200


def test_a_method_nobody_has_heard_of_is_refused(collected: Collected) -> None:
    """As are those that do not fit."""
    assert collected.send(b"", method="BREW").status == 405


def test_a_body_over_the_limit_is_not_read(collected: Collected) -> None:
    """Its announced length is enough."""
    answered = collected.send(b"", content_length=str(BODY_LIMIT + 1))
    assert (answered.status, refusal(answered)[0]) == (413, 8)
    assert answered.headers["connection"] == "close"


@pytest.mark.parametrize("chunked", [True, False])
def test_who_sends_too_much_gets_the_answer(collected: Collected, chunked: bool) -> None:
    """Though it is given before all is sent; nothing of it stays counted."""
    body = bytes(BODY_LIMIT + 5_000_000)
    sent = iter([body[at : at + 100_000] for at in range(0, len(body), 100_000)]) if chunked else body
    connection = http.client.HTTPConnection("127.0.0.1", collected.otlp.port, timeout=30)
    connection.request("POST", TRACES, sent, {"content-type": PROTOBUF}, encode_chunked=chunked)
    assert connection.getresponse().status == 413
    connection.close()
    assert collected.collector._budget.taken_bytes == 0
    assert collected.send(SPAN).status == 200


class Failing:
    """Makes a store fail when it is told to."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Exception | None = None
        self._add_spans = store.add_spans
        monkeypatch.setattr(store, "add_spans", self._fail_or_add)

    def _fail_or_add(self, *arguments: object, **named: object) -> None:
        if self.error is not None:
            raise self.error
        self._add_spans(*arguments, **named)  # type: ignore[arg-type]


def test_a_store_that_fails_asks_to_try_again(
    collected: Collected, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """503 with Retry-After where it may pass; 500 for a mistake of ours, without its text."""
    failing = Failing(collected.store, monkeypatch)
    failing.error = StoreNotWritten(tmp_path, "disk full")  # type: ignore[arg-type]
    answered = collected.send(SPAN)
    assert (answered.status, answered.headers["retry-after"]) == (503, "1")
    assert (refusal(answered)[0], "disk full" in refusal(answered)[1]) == (14, True)
    assert collected.pages.ask("/healthz").status == 503
    failing.error = KeyError("a secret")
    answered = collected.send(SPAN)
    assert (answered.status, refusal(answered)) == (500, (13, "KeyError while storing the spans"))
    failing.error = None
    assert collected.send(SPAN).status == 200
    assert collected.pages.ask("/healthz").status == 200


def test_what_would_not_fit_in_memory_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """While much is waiting; the place is given back with the answers."""
    monkeypatch.setattr("agentprof_collector.collect.collector.WAITING_BYTES", 1000)
    with collecting() as collected:
        answered = collected.send(bytes(2000))
        assert (answered.status, answered.headers["retry-after"]) == (503, "1")
        assert collected.collector._budget.taken_bytes == 0
        for _ in range(30):
            assert collected.send(SPAN).status == 200


def test_exporters_of_the_sdk_are_understood(collected: Collected) -> None:
    """As they are, compressed or not."""
    for compression in (Compression.NoCompression, Compression.Gzip, Compression.Deflate):
        exporter = OTLPSpanExporter(endpoint=collected.url + TRACES, compression=compression)
        span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s")
        span.end()
        taken = exporter.export([span])  # type: ignore[list-item]
        # Deflate is no part of the standard: refused, and not sent again.
        assert (taken is SpanExportResult.SUCCESS) == (compression is not Compression.Deflate)
        exporter.shutdown()
    assert len(collected.received) == 2


def test_closing_answers_what_is_being_stored() -> None:
    """An acknowledged span is stored, and one being stored is acknowledged."""
    inside, go_on = threading.Event(), threading.Event()

    def slow(spans: Sequence[RawSpan]) -> None:
        inside.set()
        assert go_on.wait(20)

    statuses: list[int] = []
    with collecting(hooks=Hooks(received=slow)) as collected:
        asking = threading.Thread(target=lambda: statuses.append(collected.send(SPAN).status))
        asking.start()
        assert inside.wait(20)
        closing = threading.Thread(target=collected.collector.stop)
        closing.start()
        go_on.set()
        closing.join(20)
        asking.join(20)
        assert (statuses, len(collected.kept())) == ([200], 1)
        with pytest.raises(OSError, match="refused"):
            collected.send(SPAN)
