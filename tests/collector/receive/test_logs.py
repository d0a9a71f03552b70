"""Log records: evaluations become outcomes of tasks, everything else is counted and dropped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.collecting import JSON, LOGS, TRACE, Collected, collecting, request

from agentprof.model import OutcomeFact
from agentprof_collector.receive import logs, metrics, otlp
from agentprof_collector.receive.otlp import NotOtlp
from agentprof_collector.receive.pieces import PIECE

EVALUATION = "gen_ai.evaluation.result"
LABEL, SCORE = "gen_ai.evaluation.score.label", "gen_ai.evaluation.score.value"
NOW = 1_790_000_000_000_000_000


def as_json(*records: dict[str, Any]) -> bytes:
    """One request; of a record: event, trace, at, and its attributes."""
    sent = []
    for record in records:
        pairs = [
            {"key": key, "value": {_json_field(value): value}} for key, value in record["attributes"].items()
        ]
        sent.append(
            {
                "timeUnixNano": str(record.get("at", 0)),
                "observedTimeUnixNano": str(record.get("observed", 0)),
                "eventName": record.get("event", ""),
                "traceId": record.get("trace", b"").hex().upper(),
                "attributes": pairs,
                "body": {"stringValue": "what was said"},
                "severityNumber": 9,
            }
        )
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": sent}]}]}).encode()


def _json_field(value: Any) -> str:
    names = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}
    return names[type(value)]


def as_protobuf(*records: dict[str, Any]) -> bytes:
    """The same."""
    message = ExportLogsServiceRequest()
    scope = message.resource_logs.add().scope_logs.add()
    for record in records:
        sent = scope.log_records.add(
            time_unix_nano=record.get("at", 0),
            observed_time_unix_nano=record.get("observed", 0),
            event_name=record.get("event", ""),
            trace_id=record.get("trace", b""),
            severity_number=9,
        )
        sent.body.string_value = "what was said"
        for key, value in record["attributes"].items():
            name = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}[
                type(value)
            ]
            setattr(sent.attributes.add(key=key).value, name, value)
    return message.SerializeToString()


BOTH = pytest.mark.parametrize(
    ("encode", "decode"), [(as_json, logs.decode_json), (as_protobuf, logs.decode_protobuf)]
)
Encode = Callable[..., bytes]
Decode = Callable[[bytes], logs.Evaluations]


def evaluation(**fields: Any) -> dict[str, Any]:
    """A record that says of a trace that it passed."""
    attributes = {LABEL: "pass", SCORE: 0.75} | fields.pop("attributes", {})
    known = {name: value for name, value in attributes.items() if value is not None}
    return {"event": EVALUATION, "trace": TRACE, "at": NOW, "attributes": known} | fields


@BOTH
def test_an_evaluation_is_the_outcome_of_its_trace(encode: Encode, decode: Decode) -> None:
    """With its score and the time it was made."""
    found = decode(encode(evaluation()))
    fact = OutcomeFact(task_id=f"trace:{TRACE.hex()}", outcome="success", score=0.75, recorded_ns=NOW)
    assert found == ([fact], 0)


@BOTH
def test_a_long_trace_id_names_the_task_its_spans_have(encode: Encode, decode: Decode) -> None:
    """Cut in the same way as the ids of spans."""
    trace = b"t" * 5000
    message = ExportTraceServiceRequest()
    message.resource_spans.add().scope_spans.add().spans.add(
        trace_id=trace, span_id=b"s" * 8, start_time_unix_nano=1
    )
    (span,) = otlp.decode_protobuf(message.SerializeToString()).spans
    ((fact,), _) = decode(encode(evaluation(trace=trace)))
    assert fact.task_id == f"trace:{span.trace_id}"


@BOTH
def test_a_task_may_be_named(encode: Encode, decode: Decode) -> None:
    """It comes before the trace; a trace is not needed then."""
    record = evaluation(attributes={"agentprof.task.id": "a", LABEL: "Fail", SCORE: 1}, trace=b"")
    fact = OutcomeFact(task_id="a", outcome="failure", score=1.0, recorded_ns=NOW)
    assert decode(encode(record)) == ([fact], 0)


@BOTH
@pytest.mark.parametrize(
    ("label", "outcome"),
    [("pass", "success"), (" PASSED ", "success"), ("correct", "success"), ("incorrect", "failure")],
)
def test_labels_that_say_pass_or_fail(encode: Encode, decode: Decode, label: str, outcome: str) -> None:
    """In any case of letters."""
    ((fact,), dropped) = decode(encode(evaluation(attributes={LABEL: label})))
    assert (fact.outcome, dropped) == (outcome, 0)


@BOTH
@pytest.mark.parametrize(
    "record",
    [
        evaluation(attributes={LABEL: "relevant"}),
        evaluation(attributes={LABEL: None}),
        evaluation(attributes={LABEL: 1}),
        evaluation(trace=b""),
        evaluation(trace=bytes(16)),
        evaluation(event="gen_ai.client.inference.operation.details"),
        evaluation(event=""),
        {"attributes": {}},
    ],
)
def test_records_that_say_nothing_about_a_task_are_dropped(
    encode: Encode, decode: Decode, record: dict[str, Any]
) -> None:
    """And counted."""
    assert decode(encode(record, evaluation())) == (decode(encode(evaluation())).outcomes, 1)


@BOTH
def test_events_of_before_had_their_name_in_an_attribute(encode: Encode, decode: Decode) -> None:
    """It is read where there is no other."""
    record = evaluation(event="", attributes={"event.name": EVALUATION})
    assert len(decode(encode(record)).outcomes) == 1


@BOTH
def test_without_a_time_it_is_now(encode: Encode, decode: Decode) -> None:
    """The time it was seen comes first; times that no clock shows are none."""
    (fact,) = decode(encode(evaluation(at=0, observed=NOW + 5))).outcomes
    assert fact.recorded_ns == NOW + 5
    before_ns = time.time_ns()
    for fact in decode(encode(evaluation(at=0), evaluation(at=2**64 - 1))).outcomes:
        assert before_ns <= fact.recorded_ns <= time.time_ns()


@pytest.mark.parametrize("sent", [b"", b"[]", b"5", b'{"resourceLogs": {}}', b"{", b"\xff", b"[" * 10_000])
def test_what_is_no_request_is_refused(sent: bytes) -> None:
    """With what was wrong."""
    with pytest.raises(NotOtlp, match=r"\S"):
        logs.decode_json(sent)
    if sent:
        with pytest.raises(NotOtlp, match="no protobuf"):
            logs.decode_protobuf(sent)


@BOTH
def test_a_large_request_is_read_whole(encode: Encode, decode: Decode) -> None:
    """Whatever pieces it is read in."""
    records = [
        evaluation(at=NOW + at, attributes={"gen_ai.evaluation.explanation": "x" * 900}) for at in range(3000)
    ]
    sent = encode(*records, {"attributes": {}})
    assert len(sent) > 2 * PIECE
    found = decode(sent)
    assert [fact.recorded_ns for fact in found.outcomes] == [NOW + at for at in range(3000)]
    assert found.dropped == 1


@pytest.mark.parametrize("decode", [logs.decode_protobuf, metrics.count_protobuf])
def test_more_records_than_anyone_sends_are_refused(decode: Callable[[bytes], object]) -> None:
    """They would take a hundred times the memory of the request."""
    empty = b"\x12\x00" * 5_000_000
    scope = b"\x12" + _varint(len(empty)) + empty
    with pytest.raises(NotOtlp, match="smaller requests"):
        decode(b"\x0a" + _varint(len(scope)) + scope)


@pytest.mark.parametrize(
    ("decode", "begin"),
    [
        (logs.decode_json, b'{"resourceLogs":[{"scopeLogs":[{"logRecords":['),
        (metrics.count_json, b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":['),
    ],
)
def test_the_same_of_json(decode: Callable[[bytes], object], begin: bytes) -> None:
    """Before it is decoded."""
    with pytest.raises(NotOtlp, match="smaller requests"):
        decode(begin + b"{}," * 10_000_000 + b"{}]}]}]}")


def _varint(number: int) -> bytes:
    return bytes([number & 127 | 128, number >> 7 & 127 | 128, number >> 14 & 127 | 128, number >> 21])


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_none(sent: bytes) -> None:
    """Nothing else is raised."""
    for decode in (logs.decode_json, logs.decode_protobuf):
        try:
            assert decode(sent).dropped >= 0
        except NotOtlp:
            continue


def test_an_evaluation_decides_the_outcome_of_its_task(collected: Collected) -> None:
    """Whether it comes before its spans or after them, over HTTP."""
    trace_id = b"e" * 16
    body = request(b"s" * 8, trace_id=trace_id, start_ns=NOW)
    failed = evaluation(trace=trace_id, at=NOW + 1, attributes={LABEL: "fail", SCORE: 0.25})
    for record, expected in ((evaluation(trace=trace_id), "success"), (failed, "failure")):
        assert collected.send(as_protobuf(record), LOGS).body == b""
        task = _task_with_call(body, trace_id)
        assert collected.send(task).status == 200
        collected.collector.up_to_date([f"trace:{trace_id.hex()}"])
        summary = collected.store.task(f"trace:{trace_id.hex()}")
        assert summary is not None
        assert summary.outcome == expected


def _task_with_call(body: bytes, trace_id: bytes) -> bytes:
    message = ExportTraceServiceRequest.FromString(body)
    span = message.resource_spans[0].scope_spans[0].spans[0]
    span.end_time_unix_nano = NOW + 10
    span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    return message.SerializeToString()


def test_dropped_records_are_counted() -> None:
    """In the figures of the collector, of logs in both encodings and of metrics."""
    with collecting() as collected:
        assert collected.send(as_protobuf({"attributes": {}}, evaluation()), LOGS).status == 200
        assert collected.send(as_json({"attributes": {}}), LOGS, content_type=JSON).body == b"{}"
        metrics = b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{},{}]}]}]}'
        assert collected.send(metrics, "/v1/metrics", content_type=JSON).status == 200
        assert "agentprof_records_dropped_total 4.0" in collected.pages.ask("/metrics").text


@pytest.mark.parametrize(
    "trace_id", ["ab" * 16, "AB" * 16, "Trace-1", "Büro/7", "x" * 300, "A" * 300, "0" * 31 + "F", "00Z"]
)
def test_ids_of_traces_are_those_of_their_spans(trace_id: str) -> None:
    """However they are written: the outcome is about the task that the spans of the trace make."""
    span = {"traceId": trace_id, "spanId": "01", "startTimeUnixNano": "5"}
    pairs = [{"key": LABEL, "value": {"stringValue": "pass"}}]
    record = {"traceId": trace_id, "eventName": EVALUATION, "attributes": pairs}
    (sent,) = otlp.decode_json(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})).spans
    logged = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    (fact,) = logs.decode_json(logged.encode()).outcomes
    assert fact.task_id == f"trace:{sent.trace_id}"


@pytest.mark.parametrize("trace_id", [b"\xab" * 16, b"\xab", b"\xab" * 300, b"\0" * 15 + b"\x01"])
def test_ids_of_traces_are_those_of_their_spans_in_protobuf(trace_id: bytes) -> None:
    """The same of bytes of any number."""
    spans = ExportTraceServiceRequest()
    spans.resource_spans.add().scope_spans.add().spans.add(
        trace_id=trace_id, span_id=b"1", start_time_unix_nano=5
    )
    (sent,) = otlp.decode_protobuf(spans.SerializeToString()).spans
    logged = as_protobuf({"event": EVALUATION, "trace": trace_id, "attributes": {LABEL: "pass"}})
    (fact,) = logs.decode_protobuf(logged).outcomes
    assert fact.task_id == f"trace:{sent.trace_id}"


@pytest.mark.parametrize(
    "value", ['{"intValue": "1.5"}', '{"intValue": 1.5}', '{"stringValue": 5}', "[]", '"text"', "null"]
)
@pytest.mark.parametrize("key", ["other", SCORE])
def test_a_value_of_a_wrong_type_costs_itself(key: str, value: str) -> None:
    """The record and all others are read."""
    label = f'{{"key": "{LABEL}", "value": {{"stringValue": "pass"}}}}'
    records = ", ".join(
        f'{{"traceId": "{n:032x}", "eventName": "{EVALUATION}", "timeUnixNano": "5", '
        f'"attributes": [{label}, {{"key": "{key}", "value": {value}}}]}}'
        for n in (1, 2)
    )
    found = logs.decode_json(
        f'{{"resourceLogs": [{{"scopeLogs": [{{"logRecords": [{records}]}}]}}]}}'.encode()
    )
    assert found == logs.Evaluations(
        [OutcomeFact(task_id=f"trace:{n:032x}", outcome="success", recorded_ns=5) for n in (1, 2)], 0
    )


@pytest.mark.parametrize("record", ["5", '"text"', "null", '{"eventName": 5}', '{"attributes": [5]}'])
def test_a_record_of_a_wrong_type_costs_itself(record: str) -> None:
    """It is counted, and the others are read."""
    good = as_json({"event": EVALUATION, "at": 5, "attributes": {LABEL: "fail", "agentprof.task.id": "t"}})
    both = good.replace(b'"logRecords": [', b'"logRecords": [' + record.encode() + b", ")
    assert both != good
    fact = OutcomeFact(task_id="t", outcome="failure", recorded_ns=5)
    assert logs.decode_json(both) == logs.Evaluations([fact], 1)
