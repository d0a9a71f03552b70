import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentprof_collector.receive.otlp import NotOtlp, decode_json, decode_protobuf

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def request(**span: Any) -> str:
    """One request with one span, whose fields can be overruled; None removes a field."""
    fields = {"traceId": TRACE, "spanId": SPAN, "startTimeUnixNano": "1000", "endTimeUnixNano": "3000"} | span
    sent = {key: value for key, value in fields.items() if value is not None}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "agent"}}]}
    scope_spans = [{"scope": {"name": "lib", "version": "1"}, "spans": [sent], "schemaUrl": "x"}]
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scope_spans}]})


def test_a_span_with_all_fields() -> None:
    """Every field of the encoding arrives in its place; unknown ones are ignored."""
    batch = decode_json(
        request(
            parentSpanId="00F067AA0BA902B7", name="chat", kind=3, status={"code": 2}, flags=256, events=[{}]
        )
    )
    (span,) = batch.spans
    assert (span.trace_id, span.span_id, span.parent_id) == (TRACE, SPAN, "00f067aa0ba902b7")
    assert (span.name, span.kind, span.status, span.scope) == ("chat", 3, 2, "lib")
    assert (span.start_ns, span.end_ns) == (1000, 3000)
    assert span.resource == {"service.name": "agent"}
    assert batch.skipped == 0


def test_attribute_values_of_every_type() -> None:
    """Values keep their Python type; arrays and maps are plain lists and dicts."""
    values = {
        "text": {"stringValue": "5"},
        "flag": {"boolValue": False},
        "int": {"intValue": "-7"},
        "number": {"intValue": 9007199254740993},
        "double": {"doubleValue": 0.5},
        "nan_text": {"doubleValue": "Infinity"},
        "list": {"arrayValue": {"values": [{"intValue": 1}, {"stringValue": "b"}]}},
        "empty_list": {"arrayValue": {}},
        "map": {"kvlistValue": {"values": [{"key": "k", "value": {"arrayValue": {"values": []}}}]}},
        "bytes": {"bytesValue": "AAE="},
        "nothing": {},
    }
    sent = [{"key": f"agentprof.{key}", "value": value} for key, value in values.items()]
    (span,) = decode_json(request(attributes=sent)).spans
    assert {key.removeprefix("agentprof."): value for key, value in span.attributes.items()} == {
        "text": "5",
        "flag": False,
        "int": -7,
        "number": 9007199254740993,
        "double": 0.5,
        "nan_text": float("inf"),
        "list": [1, "b"],
        "empty_list": [],
        "map": {"k": []},
        "bytes": b"\x00\x01",
        "nothing": None,
    }


def test_both_encodings_give_the_same_span() -> None:
    """A request in protobuf is read as the same request in JSON."""
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "agent"
    scope_spans = group.scope_spans.add()
    scope_spans.scope.name = "lib"
    span = scope_spans.spans.add(
        trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN), name="chat", kind=3
    )
    span.start_time_unix_nano, span.end_time_unix_nano = 1000, 3000
    span.status.code = span.status.STATUS_CODE_ERROR
    span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 12
    span.attributes.add(key="agentprof.list").value.array_value.values.add().bool_value = True
    span.attributes.add(key="agentprof.map").value.kvlist_value.values.add(key="k").value.double_value = 0.5
    span.attributes.add(key="prompt").value.string_value = "not for us"
    attributes = [
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12"}},
        {"key": "agentprof.list", "value": {"arrayValue": {"values": [{"boolValue": True}]}}},
        {"key": "prompt", "value": {"stringValue": "not for us"}},
        {
            "key": "agentprof.map",
            "value": {"kvlistValue": {"values": [{"key": "k", "value": {"doubleValue": 0.5}}]}},
        },
    ]
    from_json = decode_json(request(name="chat", kind=3, status={"code": 2}, attributes=attributes))
    assert decode_protobuf(message.SerializeToString()) == from_json


def test_attributes_that_nobody_reads_are_only_counted() -> None:
    """Of the attributes those are kept that a vocabulary or agentprof itself has a use for."""
    sent = [
        {"key": key, "value": {"stringValue": "x"}}
        for key in ("gen_ai.prompt", "agentprof.label.team", "gen_ai.tool.name", "input.value", "http.method")
    ]
    (span,) = decode_json(request(attributes=sent)).spans
    assert set(span.attributes) == {"agentprof.label.team", "gen_ai.tool.name", "http.method"}
    assert span.attributes_count == 5


@pytest.mark.parametrize(
    ("field", "sent", "expected"),
    [
        ("traceId", TRACE.upper(), TRACE),
        ("traceId", "Run-42", "Run-42"),
        ("parentSpanId", "", None),
        ("parentSpanId", "0000000000000000", None),
        ("startTimeUnixNano", 1000, 1000),
        ("endTimeUnixNano", None, None),
        ("endTimeUnixNano", "0", None),
        ("kind", "SPAN_KIND_SERVER", 2),
        ("status", {"code": "STATUS_CODE_ERROR"}, 2),
        ("status", {}, 0),
        ("name", None, ""),
    ],
)
def test_what_is_tolerated(field: str, sent: object, expected: object) -> None:
    """Spellings found in the field are read as what they mean."""
    names = {
        "traceId": "trace_id",
        "parentSpanId": "parent_id",
        "startTimeUnixNano": "start_ns",
        "endTimeUnixNano": "end_ns",
    }
    (span,) = decode_json(request(**{field: sent})).spans
    assert getattr(span, names.get(field, field)) == expected


@pytest.mark.parametrize("field", ["traceId", "spanId", "parentSpanId"])
def test_ids_without_end_are_cut_and_stay_distinct(field: str) -> None:
    """In either encoding, to the same text; what is cut is in a hash."""
    names = {"traceId": "trace_id", "spanId": "span_id", "parentSpanId": "parent_id"}
    fields = {"traceId": "trace_id", "spanId": "span_id", "parentSpanId": "parent_span_id"}
    found = []
    for last in (b"a", b"b"):
        sent = b"i" * 1_000_000 + last
        (span,) = decode_json(request(**{field: sent.hex()})).spans
        message = ExportTraceServiceRequest()
        ids = {"trace_id": b"t" * 16, "span_id": b"s" * 8, fields[field]: sent}
        message.resource_spans.add().scope_spans.add().spans.add(start_time_unix_nano=1, **ids)
        (same,) = decode_protobuf(message.SerializeToString()).spans
        found += [getattr(span, names[field]), getattr(same, names[field])]
    assert found[0] == found[1] != found[2] == found[3]
    assert {len(text) for text in found} == {256}


@pytest.mark.parametrize("field", ["traceId", "spanId", "startTimeUnixNano"])
@pytest.mark.parametrize("sent", [None, "0"])
def test_a_span_without_identity_or_start_is_counted(field: str, sent: object) -> None:
    """Such a span cannot be kept: it is left out and counted."""
    batch = decode_json(request(**{field: sent}))
    assert (batch.spans, batch.skipped) == ([], 1)
    message = ExportTraceServiceRequest()
    message.resource_spans.add().scope_spans.add().spans.add(name="no ids")
    assert decode_protobuf(message.SerializeToString()).skipped == 1


@pytest.mark.parametrize("text", ["{}", '{"resourceSpans": null}', '{"resourceLogs": []}'])
def test_a_request_without_spans(text: str) -> None:
    """Empty requests and other signals hold no spans and are no error."""
    assert decode_json(text).spans == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"data": [{"traceID": "1"}]}', "expected the key resourceSpans, found data"),
        ('{"resourceSpans": [', "truncated"),
        ('{"resourceSpans": NaN', r"malformed.*\(byte"),
        ("[]", "expected an object with the key resourceSpans"),
        ("[1, {}]", "expected an object with the key resourceSpans"),
        ('{"resourceSpans": 3}', "resourceSpans and a list"),
        ('{"data": NaN}', "malformed"),
    ],
)
def test_what_is_refused(text: str, says: str) -> None:
    """A refusal names the place and what was expected."""
    with pytest.raises(NotOtlp, match=says):
        decode_json(text)


GOOD = {"key": "agentprof.good", "value": {"stringValue": "kept"}}
LOST = object()


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ('{"stringValue": 5}', LOST),
        ('{"stringValue": ["a"]}', LOST),
        ('{"intValue": "abc"}', LOST),
        ('{"intValue": true}', LOST),
        ('{"intValue": 1.5}', LOST),
        ('{"intValue": "%s"}' % ("9" * 5000), LOST),
        ('{"intValue": %s}' % ("9" * 5000), LOST),
        ('{"intValue": "12.0"}', 12),
        ('{"intValue": 12.0}', 12),
        ('{"doubleValue": NaN}', LOST),
        ('{"doubleValue": -Infinity}', LOST),
        ('{"doubleValue": 1e999}', LOST),
        ('{"doubleValue": "1e999"}', float("inf")),
        ('{"doubleValue": "fast"}', LOST),
        ('{"doubleValue": "0.5"}', 0.5),
        ('{"boolValue": "true"}', True),
        ('{"boolValue": 7}', LOST),
        ('{"bytesValue": 7}', LOST),
        ('{"stringValue": "a\\ud800b"}', "a\ufffdb"),
        ('{"stringValue": "a\\ud83d\\ude42b"}', "a🙂b"),
        ('{"arrayValue": {"values": [{"intValue": "x"}, {"intValue": 3}]}}', [3]),
        ('{"arrayValue": 5}', []),
        ('{"kvlistValue": {"values": [{"key": "k", "value": {"intValue": "x"}}]}}', {}),
        ('"text"', LOST),
        ("[1]", LOST),
    ],
)
def test_a_wrong_value_costs_itself(value: str, read: object) -> None:
    """Beside it the span, its other attributes and the other spans stay, and it is counted."""
    attributes = [GOOD, {"key": "agentprof.bad", "value": "VALUE"}, GOOD | {"key": "agentprof.also"}]
    text = request(attributes=attributes, name="chat").replace('"VALUE"', value)
    batch = decode_json(text.encode())
    (span,) = batch.spans
    assert (span.trace_id, span.span_id, span.name, span.start_ns) == (TRACE, SPAN, "chat", 1000)
    assert span.resource == {"service.name": "agent"}
    expected = {"agentprof.good": "kept", "agentprof.also": "kept"}
    expected |= {} if read is LOST else {"agentprof.bad": read}
    assert span.attributes == expected
    # A part of a list or a map is a value too.
    assert batch.lost == (read is LOST or read in ([3], [], {}))


@pytest.mark.parametrize(
    ("field", "sent", "expected", "lost"),
    [
        ("name", 5, "", 1),
        ("parentSpanId", 5, None, 1),
        ("endTimeUnixNano", "soon", None, 1),
        ("endTimeUnixNano", 2.5, None, 1),
        ("endTimeUnixNano", "1.8e18", 1_800_000_000_000_000_000, 0),
        ("endTimeUnixNano", 1.8e18, 1_800_000_000_000_000_000, 0),
        ("startTimeUnixNano", 1.8e18, 1_800_000_000_000_000_000, 0),
        ("endTimeUnixNano", 2**80, None, 0),
        ("kind", 1.0, 1, 0),
        ("kind", 10**30, 0, 0),
        ("kind", [3], 0, 1),
        ("status", "ERROR", 2, 0),
        ("status", "STATUS_CODE_ERROR", 2, 0),
        ("status", 2, 2, 0),
        ("status", {"code": [2]}, 0, 1),
        ("attributes", {"a": 1}, {}, 1),
        ("attributes", [GOOD, 5, None], {"agentprof.good": "kept"}, 1),
        ("attributes", [{"key": 5, "value": {}}, GOOD], {"agentprof.good": "kept"}, 1),
        ("attributes", [{"key": None, "value": {}}, GOOD], {"agentprof.good": "kept"}, 1),
    ],
)
def test_a_wrong_field_costs_itself(field: str, sent: object, expected: object, lost: int) -> None:
    """What means something is read; what does not is absent and counted."""
    names = {"parentSpanId": "parent_id", "startTimeUnixNano": "start_ns", "endTimeUnixNano": "end_ns"}
    batch = decode_json(request(**{field: sent}))
    (span,) = batch.spans
    assert getattr(span, names.get(field, field)) == expected
    assert (span.trace_id, span.span_id, batch.skipped) == (TRACE, SPAN, 0)
    assert batch.lost == lost


@pytest.mark.parametrize(
    ("field", "sent"),
    [
        ("traceId", 5),
        ("traceId", [1]),
        ("spanId", {"a": 1}),
        ("startTimeUnixNano", "abc"),
        ("startTimeUnixNano", [1]),
        ("startTimeUnixNano", 2**80),
        ("startTimeUnixNano", "-5"),
    ],
)
def test_a_span_made_useless_costs_itself(field: str, sent: object) -> None:
    """A wrong identity or start costs the span, none of those beside it."""
    tree = json.loads(request(name="good"))
    bad = json.loads(request(**{field: sent}))["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    tree["resourceSpans"][0]["scopeSpans"][0]["spans"] += [bad, 5]
    batch = decode_json(json.dumps(tree))
    assert [span.name for span in batch.spans] == ["good"]
    assert batch.skipped == 2


def test_wrong_groups_cost_themselves() -> None:
    """What is no resource, scope or list of spans leaves the others."""
    tree = json.loads(request(name="good"))
    good = tree["resourceSpans"][0]
    tree["resourceSpans"] = [
        5,
        good,
        {"resource": "x", "scopeSpans": [7, {"scope": 3, "spans": good["scopeSpans"][0]["spans"]}]},
        {"scopeSpans": {"a": 1}},
        {"scopeSpans": [{"spans": 5}]},
    ]
    batch = decode_json(json.dumps(tree))
    assert [(span.name, span.scope, span.resource) for span in batch.spans] == [
        ("good", "lib", {"service.name": "agent"}),
        ("good", "", {}),
    ]
    assert batch.lost == 6


def test_a_list_of_requests_is_read() -> None:
    """As some tools write all requests into one array."""
    text = f"[{request(name='a')}, {request(name='b')}]"
    assert [span.name for span in decode_json(text).spans] == ["a", "b"]


@given(st.data())
def test_any_json_in_the_place_of_a_value(data: st.DataObject) -> None:
    """Whatever stands in one place of one span, the span beside it is read."""
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
        max_leaves=6,
    )
    tree = json.loads(request(name="good"))
    spans = tree["resourceSpans"][0]["scopeSpans"][0]["spans"]
    field = data.draw(st.sampled_from([*spans[0], "kind", "status", "attributes", "parentSpanId", ""]))
    odd = data.draw(json_values)
    kinds = ["stringValue", "intValue", "doubleValue", "boolValue", "arrayValue", "kvlistValue", "bytesValue"]
    if field == "":
        kind = data.draw(st.sampled_from(kinds))
        bad = spans[0] | {"name": "odd", "attributes": [{"key": "k", "value": {kind: odd}}]}
    else:
        bad = spans[0] | {"name": "odd"} | {field: odd}
    tree["resourceSpans"][0]["scopeSpans"][0]["spans"] = [bad, spans[0]]
    batch = decode_json(json.dumps(tree))
    assert batch.spans[-1].name == "good"
    assert len(batch.spans) + batch.skipped == 2


def test_nesting_without_end_is_refused() -> None:
    """Values nested deeper than the stack are an error, no crash."""
    value = '{"arrayValue":{"values":[' * 20_000
    with pytest.raises(NotOtlp):
        decode_json('{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":' + value)


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff", b"plain text", ExportTraceServiceRequest().SerializeToString() + b"\x78\x01"]
)
def test_protobuf_of_something_else_is_refused(data: bytes) -> None:
    """Bytes that are no request, or one of unknown fields only, are an error."""
    with pytest.raises(NotOtlp):
        decode_protobuf(data)
