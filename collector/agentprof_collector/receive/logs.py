"""OTLP log records → outcomes of tasks; all other records are only counted.

An evaluation is a record of the event of `agentprof.vocabularies.evaluations`. Its verdict is the label where
that says pass or fail; it is about the task the record names (`agentprof.task.id`), else about the
outermost task of its trace.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from agentprof import attributes
from agentprof.model import OutcomeFact
from agentprof.rollup.tasks import IMPLICIT_PREFIX
from agentprof.vocabularies import evaluations, values
from agentprof_collector.receive.otlp import NotOtlp, bytes_id, check_json_size, in_pieces, text_id

_LATEST_NS: Final = 2**63 - 1


class Evaluations(NamedTuple):
    """What one request of log records held."""

    outcomes: list[OutcomeFact]
    dropped: int
    """Records that say nothing about the outcome of a task."""


class _AnyValue(msgspec.Struct):
    stringValue: str | None = None
    boolValue: bool | None = None
    intValue: int | None = None
    doubleValue: float | None = None


_NOTHING: Final = msgspec.Raw(b"null")


class _KeyValue(msgspec.Struct):
    key: str = ""
    value: msgspec.Raw = _NOTHING


class _Record(msgspec.Struct):
    timeUnixNano: int | None = None
    observedTimeUnixNano: int | None = None
    eventName: str | None = None
    traceId: str | None = None
    attributes: list[_KeyValue] | None = None


class _ScopeLogs(msgspec.Struct):
    logRecords: list[msgspec.Raw] | None = None


class _ResourceLogs(msgspec.Struct):
    scopeLogs: list[_ScopeLogs] | None = None


class _Request(msgspec.Struct):
    resourceLogs: list[_ResourceLogs] | None = None


_WANTED: Final = (evaluations.EVENT_NAME, evaluations.LABEL, evaluations.SCORE, attributes.TASK_ID)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)

_decoder = msgspec.json.Decoder(_Request, strict=False)
# What is wrong with one of them must not cost the others.
_decode_record = msgspec.json.Decoder(_Record, strict=False).decode
_decode_value = msgspec.json.Decoder(_AnyValue, strict=False).decode


def decode_json(data: bytes) -> Evaluations:
    """The evaluations of one request in OTLP/JSON; a record or a value of a wrong type costs itself.

    Raises:
        NotOtlp: no JSON, or JSON that is no export request of logs.
    """
    check_json_size(data)
    try:
        request = _decoder.decode(data)
    except _UNREADABLE as error:
        raise NotOtlp(str(error)) from error
    sent = [
        _json_record(raw)
        for group in request.resourceLogs or ()
        for scope in group.scopeLogs or ()
        for raw in scope.logRecords or ()
    ]
    records = [record for record in sent if record is not None]
    found = _evaluations(
        (
            record.eventName or "",
            text_id(record.traceId),
            record.timeUnixNano or record.observedTimeUnixNano or 0,
            record.attributes or (),
            _json_value,
        )
        for record in records
    )
    return found._replace(dropped=found.dropped + len(sent) - len(records))


def decode_protobuf(data: bytes) -> Evaluations:
    """The evaluations of one request in OTLP protobuf.

    Raises:
        NotOtlp: the bytes are no such message.
    """
    found = [_in_piece(piece) for piece in in_pieces(data)]
    outcomes = [fact for one in found for fact in one.outcomes]
    return Evaluations(outcomes, sum(one.dropped for one in found))


def _in_piece(data: bytes) -> Evaluations:
    try:
        request = ExportLogsServiceRequest.FromString(data)
    except DecodeError as error:
        raise NotOtlp("the bytes are no protobuf ExportLogsServiceRequest") from error
    records = (
        record
        for group in request.resource_logs
        for scope in group.scope_logs
        for record in scope.log_records
    )
    return _evaluations(
        (
            record.event_name,
            bytes_id(record.trace_id),
            record.time_unix_nano or record.observed_time_unix_nano,
            record.attributes,
            _protobuf_value,
        )
        for record in records
    )


def _evaluations(records: Iterable[tuple[str, str | None, int, Any, Any]]) -> Evaluations:
    outcomes: list[OutcomeFact] = []
    dropped = 0
    for event_name, trace_id, time_ns, pairs, value_of in records:
        found = {pair.key: value_of(pair.value) for pair in pairs if pair.key in _WANTED}
        fact = None
        if (event_name or found.get(evaluations.EVENT_NAME)) == evaluations.RESULT:
            fact = _fact(trace_id, time_ns, found)
        if fact is None:
            dropped += 1
        else:
            outcomes.append(fact)
    return Evaluations(outcomes, dropped)


def _fact(trace_id: str | None, time_ns: int, found: Mapping[str, Any]) -> OutcomeFact | None:
    """None where nothing says pass or fail, or of which task."""
    outcome = evaluations.VERDICTS.get(str(found.get(evaluations.LABEL)).strip().lower())
    task_id = values.identity(found.get(attributes.TASK_ID))
    if task_id is None and trace_id is not None:
        task_id = IMPLICIT_PREFIX + trace_id
    if outcome is None or task_id is None:
        return None
    recorded_ns = time_ns if 0 < time_ns <= _LATEST_NS else time.time_ns()
    return OutcomeFact(
        task_id=task_id,
        outcome=outcome,
        score=values.number(found.get(evaluations.SCORE)),
        recorded_ns=recorded_ns,
    )


def _json_record(raw: msgspec.Raw) -> _Record | None:
    try:
        return _decode_record(raw)
    except _UNREADABLE:
        return None


def _json_value(raw: msgspec.Raw) -> Any:
    try:
        value = _decode_value(raw)
    except _UNREADABLE:
        return None
    for scalar in (value.stringValue, value.intValue, value.doubleValue):
        if scalar is not None:
            return scalar
    return value.boolValue


def _protobuf_value(value: Any) -> Any:
    field = value.WhichOneof("value")
    return (
        getattr(value, field)
        if field in ("string_value", "bool_value", "int_value", "double_value")
        else None
    )
