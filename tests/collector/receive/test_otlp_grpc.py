"""OTLP over gRPC, asked over the wire by real clients and by such as send what no client sends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from support.collecting import GRPC_METHOD, SPAN, Collected, collecting, refusing, request

from agentprof_collector.errors import StoreNotWritten
from agentprof_collector.receive import grpc as receiver
from agentprof_collector.receive.exchange import BODY_LIMIT

TRACE_METHOD = GRPC_METHOD.format("trace", "Trace")
METHODS = {
    "traces": (TRACE_METHOD, ExportTraceServiceResponse),
    "logs": (GRPC_METHOD.format("logs", "Logs"), ExportLogsServiceResponse),
    "metrics": (GRPC_METHOD.format("metrics", "Metrics"), ExportMetricsServiceResponse),
}


def export(collected: Collected, body: bytes, method: str = TRACE_METHOD, **more: Any) -> bytes:
    """The answer to one message, or `grpc.RpcError`."""
    options = {"max_send_message_length": -1}
    with collected.channel(**options) as channel:
        answer: bytes = channel.unary_unary(method)(body, timeout=30, **more)
        return answer


def refused(collected: Collected, body: bytes, method: str = TRACE_METHOD, **more: Any) -> Any:
    """The error that is the answer to one message."""
    with pytest.raises(grpc.RpcError) as caught:
        export(collected, body, method, **more)
    return caught.value


def details(error: Any) -> Status:
    """The status in full."""
    trailers = dict(error.trailing_metadata())
    status = Status.FromString(trailers["grpc-status-details-bin"])
    assert (status.code, status.message) == (error.code().value[0], error.details())
    return status


def retry_delay_s(error: Any) -> int | None:
    """What an exporter waits before it comes again; None: it does not."""
    for detail in details(error).details:
        info = RetryInfo()
        if detail.Unpack(info):
            return int(info.retry_delay.seconds)
    return None


@pytest.mark.parametrize("signal", METHODS)
@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_an_empty_message_succeeds(collected: Collected, signal: str, compression: Any) -> None:
    """For each signal, and of what is taken whole no partial success is set."""
    method, response = METHODS[signal]
    answer = response.FromString(export(collected, b"", method, compression=compression))
    assert not answer.HasField("partial_success")


@pytest.mark.parametrize("compression", list(grpc.Compression))
def test_spans_are_stored_however_they_are_packed(collected: Collected, compression: Any) -> None:
    """The transport unpacks them."""
    assert export(collected, SPAN, compression=compression) == b""
    assert collected.span_ids == [(b"s" * 8).hex()]
    assert collected.kept() == collected.span_ids


def test_spans_that_cannot_be_kept_are_told(collected: Collected) -> None:
    """The call succeeds: it must not be made again."""
    answer = ExportTraceServiceResponse.FromString(export(collected, request(b"s" * 8, b"", b"\0" * 8)))
    assert answer.partial_success.rejected_spans == 2
    assert "cannot be kept" in answer.partial_success.error_message
    assert len(collected.received) == 1


@pytest.mark.parametrize("signal", METHODS)
def test_what_is_no_message_is_refused_for_good(collected: Collected, signal: str) -> None:
    """Sending it again would not help."""
    error = refused(collected, b"\xff\xff", METHODS[signal][0])
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "protobuf" in error.details()
    assert retry_delay_s(error) is None
    assert collected.received == []


def test_other_services_are_not_there(collected: Collected) -> None:
    """As gRPC says it."""
    for method in ("/a/b", "/", GRPC_METHOD.format("trace", "Trace") + "x"):
        assert refused(collected, SPAN, method).code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_at_the_limit_is_read(collected: Collected) -> None:
    """The limit is that of HTTP."""
    filled = SPAN + b"\xfa\x3e" + _varint(BODY_LIMIT - len(SPAN) - 6) + bytes(BODY_LIMIT - len(SPAN) - 6)
    assert len(filled) == BODY_LIMIT
    assert export(collected, filled) == b""
    assert len(collected.received) == 1


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_over_the_limit_is_refused_for_good(collected: Collected, compression: Any) -> None:
    """Packed or not: what is unpacked counts, so that a bomb does not go off."""
    error = refused(collected, bytes(BODY_LIMIT + 1), compression=compression)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in error.details()
    assert "grpc-status-details-bin" not in dict(error.trailing_metadata())
    assert export(collected, SPAN) == b""


def test_a_store_that_fails_asks_to_try_again(
    collected: Collected, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """With the delay without which a sender would give up."""

    def fail(*arguments: Any, **named: Any) -> None:
        raise StoreNotWritten(tmp_path, "disk full")

    with monkeypatch.context() as patched:
        patched.setattr(collected.store, "add_spans", fail)
        error = refused(collected, SPAN)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert retry_delay_s(error) == 1
    assert "disk full" in error.details()
    assert export(collected, SPAN) == b""


def test_a_mistake_of_ours_is_refused_for_good(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its text, which may hold anything."""

    def fail(*arguments: Any, **named: Any) -> None:
        raise KeyError("a secret")

    with monkeypatch.context() as patched:
        patched.setattr(collected.store, "add_spans", fail)
        error = refused(collected, SPAN)
    assert (error.code(), error.details()) == (
        grpc.StatusCode.INTERNAL,
        "KeyError while storing the spans",
    )


def test_what_would_not_fit_in_memory_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place is given back with the answers."""
    monkeypatch.setattr("agentprof_collector.collect.collector.WAITING_BYTES", 1000)
    with collecting() as collected:
        error = refused(collected, bytes(2000))
        assert (error.code(), retry_delay_s(error)) == (grpc.StatusCode.UNAVAILABLE, 1)
        for _ in range(30):
            assert export(collected, SPAN) == b""
        assert collected.collector._budget.taken_bytes == 0


def test_the_token_is_asked_for() -> None:
    """Of every call, and before its message is read."""
    token = "a token of sixteen characters"
    with collecting(token=token) as collected:
        for metadata in ((), (("authorization", "Bearer wrong"),), (("authorization", f"Basic {token}"),)):
            error = refused(collected, SPAN, metadata=metadata)
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "Bearer TOKEN" in details(error).message
        with collected.channel() as channel:
            never = threading.Event()
            call = channel.stream_unary(TRACE_METHOD).future(_nothing_until(never), timeout=30)
            assert call.code() is grpc.StatusCode.UNAUTHENTICATED
            never.set()
        assert collected.received == []
        assert export(collected, SPAN, metadata=(("authorization", f"bearer {token}"),)) == b""


def _nothing_until(moment: threading.Event) -> Iterator[bytes]:
    moment.wait(60)
    yield SPAN


def test_who_sends_no_message_loses_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are few places; more senders than that who say nothing hold the others up only for a while."""
    monkeypatch.setattr(receiver, "MESSAGE_S", 0.5)
    with collecting() as collected, collected.channel() as channel:
        never = threading.Event()
        silent = [
            channel.stream_unary(TRACE_METHOD).future(_nothing_until(never)) for _ in range(receiver._AT_ONCE)
        ]
        assert export(collected, SPAN) == b""
        assert {call.code() for call in silent} == {grpc.StatusCode.CANCELLED}
        never.set()


def test_a_call_without_a_message_is_refused(collected: Collected) -> None:
    """It ends at once; of several messages the first counts."""
    with collected.channel() as channel:
        call = channel.stream_unary(TRACE_METHOD).future(iter(()), timeout=30)
        assert call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert channel.stream_unary(TRACE_METHOD)(iter([SPAN, SPAN]), timeout=30) == b""
    assert len(collected.received) == 1


def test_the_exporter_of_the_sdk_is_understood(collected: Collected) -> None:
    """As it is, compressed or not."""
    for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
        exporter = OTLPSpanExporter(
            endpoint=f"http://{collected.collector.otlp_grpc_target}", compression=compression
        )
        span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s")
        span.end()
        assert exporter.export([span]) is SpanExportResult.SUCCESS  # type: ignore[list-item]
        exporter.shutdown()
    assert len(collected.received) == 2


def test_the_exporter_of_the_sdk_comes_again_when_it_was_put_off(collected: Collected) -> None:
    """Nothing is lost by that."""
    refusals = iter([refusing().pass_on])

    def once(sent: Any) -> None:
        refuse = next(refusals, None)
        if refuse is not None:
            refuse(sent)

    with collecting(hooks=refusing()._replace(pass_on=once)) as first_busy:
        exporter = OTLPSpanExporter(endpoint=f"http://{first_busy.collector.otlp_grpc_target}")
        span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s")
        span.end()
        began_s = time.monotonic()
        assert exporter.export([span]) is SpanExportResult.SUCCESS  # type: ignore[list-item]
        exporter.shutdown()
        assert len(first_busy.received) == 1
    assert time.monotonic() - began_s >= 1  # it was told to wait


def test_a_port_that_cannot_be_had_is_an_error() -> None:
    """Of the message, and nothing is left open."""
    with collecting() as collected:
        assert collected.collector.otlp_grpc_target is not None
        port = int(collected.collector.otlp_grpc_target.rpartition(":")[2])
        with (
            pytest.raises(Exception, match=r"is taken by .* --otlp-grpc-port"),
            collecting(otlp_grpc_port=port),
        ):
            pytest.fail("two collectors on one port")
