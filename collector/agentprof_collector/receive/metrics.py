"""OTLP metrics: read so that a malformed request is refused, counted, and not kept."""

from __future__ import annotations

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from agentprof_collector.receive.otlp import NotOtlp, check_json_size, in_pieces


class _ScopeMetrics(msgspec.Struct):
    metrics: list[msgspec.Raw] | None = None


class _ResourceMetrics(msgspec.Struct):
    scopeMetrics: list[_ScopeMetrics] | None = None


class _Request(msgspec.Struct):
    resourceMetrics: list[_ResourceMetrics] | None = None


_decoder = msgspec.json.Decoder(_Request)


def count_json(data: bytes) -> int:
    """How many metrics a request in OTLP/JSON holds.

    Raises:
        NotOtlp: no JSON, or JSON that is no export request of metrics.
    """
    check_json_size(data)
    try:
        request = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise NotOtlp(str(error)) from error
    return sum(
        len(scope.metrics or ())
        for group in request.resourceMetrics or ()
        for scope in group.scopeMetrics or ()
    )


def count_protobuf(data: bytes) -> int:
    """How many metrics a request in OTLP protobuf holds.

    Raises:
        NotOtlp: the bytes are no such message.
    """
    return sum(_count(piece) for piece in in_pieces(data))


def _count(data: bytes) -> int:
    try:
        request = ExportMetricsServiceRequest.FromString(data)
    except DecodeError as error:
        raise NotOtlp("the bytes are no protobuf ExportMetricsServiceRequest") from error
    return sum(len(scope.metrics) for group in request.resource_metrics for scope in group.scope_metrics)
