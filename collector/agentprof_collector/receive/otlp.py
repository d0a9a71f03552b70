"""One OTLP export request of traces, JSON or protobuf, as bytes → its spans.

Tolerant where the encodings in the field are: 64-bit numbers as text or number, enums as number or name,
ids in any case and also such as are no hex, unknown fields. A value of a wrong type costs itself; a span
that has no identity or no start cannot be kept; both are counted.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentprof.model import RawSpan
from agentprof.vocabularies import is_read, values
from agentprof.vocabularies.content import is_content
from agentprof_collector.receive import ID_CHARS, Batch, wire
from agentprof_collector.receive.pieces import PIECE, Malformed, Pieces, TooMuch
from agentprof_collector.receive.repair import NotRequest, repaired

_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUSES = ("UNSET", "OK", "ERROR")
_LATEST_NS = 2**63 - 1
_ZERO = b"\0"
"""What an id that is none consists of."""
SPANS_LIMIT: Final = 250_000
"""Spans, log records or metrics of one request; senders have some hundreds to some thousands."""
_JSON_LIMIT: Final = 8_000_000
"""Values of one request in JSON: 64 MiB of spans have half of it, where texts in them hold JSON too."""
_HEX = re.compile("[0-9a-fA-F]+")
_SPAN_ATTRIBUTES = wire.Attributes(is_read)
_WITH_CONTENT = wire.Attributes(lambda name: is_read(name) or is_content(name))
_RESOURCE_ATTRIBUTES = wire.Attributes(lambda name: True)


class NotOtlp(ValueError):
    """The bytes are no export request of traces that is read; the text says what was wrong."""


# --- JSON ----------------------------------------------------------------------------------------
# Field names are those of the encoding, so that decoding needs no renaming.


class _Values(msgspec.Struct, gc=False):
    values: list[_AnyValue] | None = None


class _Pairs(msgspec.Struct, gc=False):
    values: list[_KeyValue] | None = None


class _AnyValue(msgspec.Struct, gc=False):
    stringValue: str | None = None
    boolValue: bool | None = None
    intValue: int | None = None
    doubleValue: float | None = None
    arrayValue: _Values | None = None
    kvlistValue: _Pairs | None = None
    bytesValue: str | None = None


class _KeyValue(msgspec.Struct, gc=False):
    key: str = ""
    value: _AnyValue | None = None


class _Status(msgspec.Struct, gc=False):
    code: int | str | None = None


class _Span(msgspec.Struct, gc=False):
    traceId: str | None = None
    spanId: str | None = None
    parentSpanId: str | None = None
    name: str | None = None
    kind: int | str | None = None
    startTimeUnixNano: int | None = None
    endTimeUnixNano: int | None = None
    attributes: list[_KeyValue] | None = None
    status: _Status | None = None


class _Scope(msgspec.Struct, gc=False):
    name: str | None = None


class _ScopeSpans(msgspec.Struct, gc=False):
    scope: _Scope | None = None
    spans: list[_Span] | None = None


class _Resource(msgspec.Struct, gc=False):
    attributes: list[_KeyValue] | None = None


class _ResourceSpans(msgspec.Struct, gc=False):
    resource: _Resource | None = None
    scopeSpans: list[_ScopeSpans] | None = None


class _Request(msgspec.Struct, gc=False):
    resourceSpans: list[_ResourceSpans] | msgspec.UnsetType | None = msgspec.UNSET


# Not strict: numbers written as text are numbers.
_decoder = msgspec.json.Decoder(_Request, strict=False)


def decode_json(data: bytes | str, *, with_content: bool = False) -> Batch:
    """The spans of one request in OTLP/JSON.

    Args:
        data: the request.
        with_content: whether attributes that hold what was said are wanted.

    Raises:
        NotOtlp: no JSON, or JSON that is no export request of traces.
    """
    lost = skipped = 0
    check_json_size(data)
    try:
        request = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        request, lost, skipped = _repaired(data, error)
    if request.resourceSpans is msgspec.UNSET:
        _refuse_other_documents(data)
        return Batch([])
    spans: list[RawSpan] = []
    for group in request.resourceSpans or ():
        resource = _json_attributes(group.resource.attributes if group.resource else None)
        for scope_spans in group.scopeSpans or ():
            scope = (scope_spans.scope.name if scope_spans.scope else None) or ""
            for sent in scope_spans.spans or ():
                span = _from_json(sent, scope, resource, with_content)
                if span is None:
                    skipped += 1
                else:
                    spans.append(span)
        _check_number(len(spans) + skipped)
    return Batch(spans, skipped, lost)


def check_json_size(data: bytes | str) -> None:
    """Refuse what would take much memory for its size: each value in it is an object of its own.

    Raises:
        NotOtlp: it has more values than are read at once.
    """
    if len(data) > PIECE:
        marks: Any = "{[," if isinstance(data, str) else (b"{", b"[", b",")
        if sum(data.count(mark) for mark in marks) > _JSON_LIMIT:
            raise NotOtlp(f"the JSON has more than {_JSON_LIMIT:,} values: send it in smaller requests")


def _check_number(spans: int) -> None:
    if spans > SPANS_LIMIT:
        raise NotOtlp(f"more than {SPANS_LIMIT:,} spans in one request: send them in smaller requests")


def _repaired(data: bytes | str, refusal: Exception) -> tuple[_Request, int, int]:
    """What is left of a request that was refused, without what is of a wrong type."""
    try:
        found = repaired(data)
    except NotRequest as error:
        # The first decoder says best where a text is cut; of a wrong type it knows only the first.
        is_syntax = isinstance(refusal, msgspec.DecodeError) and not isinstance(
            refusal, msgspec.ValidationError
        )
        raise NotOtlp(str(refusal if is_syntax else error)) from error
    return msgspec.convert(found.tree, _Request, strict=False), found.lost, found.skipped


def _refuse_other_documents(data: bytes | str) -> None:
    """An empty request, logs and metrics hold no spans and are fine; any other object is a mistake."""
    try:
        keys = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise NotOtlp(str(error)) from error
    if keys and not keys.keys() & {"resourceLogs", "resourceMetrics"}:
        raise NotOtlp(f"expected the key resourceSpans, found {', '.join(sorted(keys)[:5])}")


def _from_json(sent: _Span, scope: str, resource: dict[str, Any], with_content: bool) -> RawSpan | None:
    trace_id, span_id = text_id(sent.traceId), text_id(sent.spanId)
    start_ns = _time(sent.startTimeUnixNano)
    if trace_id is None or span_id is None or start_ns is None:
        return None
    return RawSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=text_id(sent.parentSpanId),
        name=sent.name or "",
        kind=_enum(sent.kind, "SPAN_KIND_", _KINDS),
        start_ns=start_ns,
        end_ns=_time(sent.endTimeUnixNano),
        status=_enum(sent.status.code if sent.status else None, "STATUS_CODE_", _STATUSES),
        attributes={
            pair.key: _json_value(pair.value)
            for pair in sent.attributes or ()
            if is_read(pair.key) or (with_content and is_content(pair.key))
        },
        attributes_count=len(sent.attributes or ()),
        scope=scope,
        resource=resource,
    )


def _time(sent_ns: int | None) -> int | None:
    """0 stands for "not set"; what no signed 64-bit number holds is no time."""
    return sent_ns if sent_ns is not None and 0 < sent_ns <= _LATEST_NS else None


def text_id(text: str | None) -> str | None:
    """Hex in lower case, other texts as they came; None for what stands for "no id"."""
    if not text or not text.strip("0"):
        return None
    return values.identity(text.lower() if _HEX.fullmatch(text) else text, ID_CHARS)


def _enum(value: int | str | None, prefix: str, names: tuple[str, ...]) -> int:
    if isinstance(value, int):
        return value if value in range(len(names)) else 0
    name = (value or "").removeprefix(prefix)
    return names.index(name) if name in names else 0


def _json_attributes(pairs: Iterable[_KeyValue] | None) -> dict[str, Any]:
    return {pair.key: _json_value(pair.value) for pair in pairs or ()}


def _json_value(value: _AnyValue | None) -> Any:
    if value is None:
        return None
    if value.arrayValue is not None:
        return [_json_value(item) for item in value.arrayValue.values or ()]
    if value.kvlistValue is not None:
        return _json_attributes(value.kvlistValue.values)
    if value.bytesValue is not None:
        try:
            return base64.b64decode(value.bytesValue)
        except binascii.Error:
            return value.bytesValue
    for scalar in (value.stringValue, value.intValue, value.doubleValue):
        if scalar is not None:
            return scalar
    return value.boolValue


# --- protobuf ------------------------------------------------------------------------------------


def decode_protobuf(data: bytes, *, with_content: bool = False) -> Batch:
    """The spans of one request in OTLP protobuf.

    Args:
        data: the request.
        with_content: whether attributes that hold what was said are wanted.

    Raises:
        NotOtlp: the bytes are no such message, or hold more than is taken at once.
    """
    spans: list[RawSpan] = []
    wanted = _WITH_CONTENT if with_content else _SPAN_ATTRIBUTES
    if len(data) <= PIECE:
        return Batch(spans, _add_protobuf(data, spans, wanted))
    pieces = Pieces(data, SPANS_LIMIT)
    skipped = 0
    try:
        for piece in pieces:
            skipped += _add_protobuf(piece, spans, wanted)
            _check_number(len(spans) + skipped)
    except Malformed as error:
        raise NotOtlp(f"the bytes are no protobuf ExportTraceServiceRequest: {error}") from error
    except TooMuch as error:
        raise NotOtlp(str(error)) from error
    return Batch(spans, skipped + pieces.left_out)


def in_pieces(data: bytes) -> Iterator[bytes]:
    """A request of any signal as requests of at most about a megabyte; see `Pieces`.

    Raises:
        NotOtlp: it cannot be cut, or holds more than is taken at once.
    """
    if len(data) <= PIECE:
        yield data
        return
    try:
        yield from Pieces(data, SPANS_LIMIT)
    except (Malformed, TooMuch) as error:
        raise NotOtlp(str(error)) from error


def _add_protobuf(data: bytes, spans: list[RawSpan], wanted: wire.Attributes) -> int:
    """Add the spans of a request; how many could not be kept."""
    try:
        ExportTraceServiceRequest.FromString(data)  # Refuses what is not well formed.
        request = wire.Request.FromString(data)
    except DecodeError as error:
        raise NotOtlp("the bytes are no protobuf ExportTraceServiceRequest") from error
    if data and not request.resource_spans:
        raise NotOtlp("the protobuf message holds no resource spans")
    skipped = 0
    for group in request.resource_spans:
        resource = _RESOURCE_ATTRIBUTES.read(group.resource.attributes)
        for scope_spans in group.scope_spans:
            scope = scope_spans.scope.name
            for sent in scope_spans.spans:
                span = _from_protobuf(sent, scope, resource, wanted)
                if span is None:
                    skipped += 1
                else:
                    spans.append(span)
    return skipped


def bytes_id(sent: bytes) -> str | None:
    """Hex; None for what stands for "no id"."""
    if not sent.strip(_ZERO):
        return None
    text = sent.hex()
    return text if len(text) <= ID_CHARS else values.identity(text, ID_CHARS)


def _from_protobuf(
    sent: Any, scope: str, resource: dict[str, Any], wanted: wire.Attributes
) -> RawSpan | None:
    trace_id, span_id, start_ns = bytes_id(sent.trace_id), bytes_id(sent.span_id), sent.start_time_unix_nano
    if trace_id is None or span_id is None or not 0 < start_ns <= _LATEST_NS:
        return None
    end_ns, attributes = sent.end_time_unix_nano, sent.attributes[:]
    return RawSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=bytes_id(sent.parent_span_id),
        name=sent.name,
        kind=sent.kind,
        start_ns=start_ns,
        end_ns=end_ns if 0 < end_ns <= _LATEST_NS else None,
        status=sent.status.code,
        attributes=wanted.read(attributes),
        attributes_count=len(attributes),
        scope=scope,
        resource=resource,
    )
