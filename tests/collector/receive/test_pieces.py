"""Large requests are read in pieces, and what would take gigabytes is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentprof_collector.receive import Batch, otlp, pieces
from agentprof_collector.receive.otlp import NotOtlp, decode_json, decode_protobuf

MIB = 1024 * 1024


def number(value: int) -> bytes:
    """A varint."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def field(tag: int, content: bytes) -> bytes:
    """A field of bytes."""
    return bytes([tag]) + number(len(content)) + content


def span(index: int, rest: bytes = b"") -> bytes:
    """A span that can be kept, encoded, with some more of its fields."""
    return (
        field(0x0A, index.to_bytes(16, "big"))
        + field(0x12, b"12345678")
        + b"\x39"
        + b"\1" * 8
        + field(0x2A, b"n")
        + rest
    )


def request(*spans: bytes) -> bytes:
    """A request with the spans in one scope."""
    resource = field(0x0A, field(0x0A, field(0x0A, b"service.name") + field(0x12, field(0x0A, b"agent"))))
    scope_spans = field(0x0A, field(0x0A, b"lib")) + b"".join(field(0x12, one) for one in spans)
    return field(0x0A, resource + field(0x12, scope_spans))


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Requests of several resources and scopes, some without any spans, with spans of different sizes."""
    message = ExportTraceServiceRequest()
    for _ in range(draw(st.integers(1, 3))):
        group = message.resource_spans.add(schema_url=draw(st.sampled_from(["", "x"])))
        if draw(st.booleans()):
            group.resource.attributes.add(key="service.name").value.string_value = draw(st.text(max_size=5))
        for _ in range(draw(st.integers(0, 3))):
            scope_spans = group.scope_spans.add()
            scope_spans.scope.name = draw(st.sampled_from(["", "lib", "other"]))
            for _ in range(draw(st.integers(0, 5))):
                made = scope_spans.spans.add(
                    trace_id=draw(st.sampled_from([b"", b"1" * 16])),
                    span_id=draw(st.binary(min_size=8, max_size=8)),
                    start_time_unix_nano=7,
                )
                for name in draw(
                    st.lists(st.sampled_from(["gen_ai.system", "agentprof.x", "y"]), max_size=3)
                ):
                    made.attributes.add(key=name).value.string_value = "v" * draw(st.integers(0, 60))
                for _ in range(draw(st.integers(0, 2))):
                    made.events.add(name="e")
    return message.SerializeToString()


def read_in_pieces(data: bytes, size: int) -> Batch:
    """The request read as if `size` bytes were much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", size)
        patch.setattr(otlp, "PIECE", size)
        return decode_protobuf(data)


@given(requests(), st.integers(450, 700))
def test_a_request_in_pieces_holds_the_same_spans(data: bytes, size: int) -> None:
    """The same spans in the same order, with their resource and scope; what cannot be kept is counted alike."""
    assert read_in_pieces(data, size) == decode_protobuf(data)


@given(requests(), st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_requests_are_read_alike_or_refused(data: bytes, changes: list[tuple[int, int]]) -> None:
    """Of a request that is damaged and still a request the pieces say the same; no other error than a refusal."""
    damaged = bytearray(data)
    for at, byte in changes:
        damaged[at % (len(damaged) + 1) : at % (len(damaged) + 1) + 1] = bytes([byte])
    try:
        found = read_in_pieces(bytes(damaged), 450)
    except NotOtlp:
        return
    try:
        whole = decode_protobuf(bytes(damaged))
    except NotOtlp:
        return  # What was wrong stood in a part that is left out of large spans.
    assert found == whole


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x0a\xff\xff\xff\x7f" + b"x" * 300, "ends inside a field"),
        (b"\x0a" + b"\xff" * 300, "ends inside a number"),
        (b"\x0b" * 300, "a field of kind 3"),
        (field(0x0A, b"\x12" + b"\x05" * 300), "ends inside a field|no protobuf"),
    ],
)
def test_bytes_that_are_no_message_are_refused(data: bytes, says: str) -> None:
    """With what is wrong with them."""
    with pytest.raises(NotOtlp, match=says):
        read_in_pieces(data, 100)


def test_what_was_said_in_a_call_may_be_long() -> None:
    """A span with megabytes of content in an attribute, or in events, keeps what is known of its call."""
    content = field(0x4A, field(0x0A, b"gen_ai.prompt") + field(0x12, field(0x0A, b"x" * (3 * MIB))))
    model = field(0x4A, field(0x0A, b"gen_ai.request.model") + field(0x12, field(0x0A, b"gpt-4o")))
    events = field(0x5A, field(0x12, b"e" * 1000)) * 2000
    batch = decode_protobuf(request(span(1), span(2, content + model), span(3, events + model), span(4)))
    assert [found.trace_id[-1] for found in batch.spans] == ["1", "2", "3", "4"]
    assert [found.attributes for found in batch.spans[1:3]] == [{"gen_ai.request.model": "gpt-4o"}] * 2
    assert {found.resource["service.name"] for found in batch.spans} == {"agent"}
    assert {found.scope for found in batch.spans} == {"lib"}
    assert batch.skipped == 0


def test_a_span_of_too_many_attributes_is_counted() -> None:
    """What stays larger than a piece cannot be kept; the spans beside it can."""
    many = field(0x4A, field(0x0A, b"agentprof.x") + field(0x12, field(0x0A, b"x" * 100))) * 20_000
    batch = decode_protobuf(request(span(1), span(2, many), span(3)))
    assert [found.trace_id[-1] for found in batch.spans] == ["1", "3"]
    assert batch.skipped == 1


def test_a_long_list_in_an_attribute_is_not_read() -> None:
    """Nothing that is kept is as long; a long text is read, and cut later."""
    items = field(0x2A, b"\x0a\x02\x18\x07" * 30_000)
    list_value = field(0x4A, field(0x0A, b"agentprof.list") + field(0x12, items))
    text = field(0x4A, field(0x0A, b"gen_ai.tool.name") + field(0x12, field(0x0A, b"t" * 70_000)))
    (found,) = decode_protobuf(request(span(1, list_value + text))).spans
    assert found.attributes == {"gen_ai.tool.name": "t" * 70_000}


def test_too_many_spans_are_refused() -> None:
    """With what to do about it."""
    with pytest.raises(NotOtlp, match="smaller requests"):
        decode_protobuf(request(*(span(index) for index in range(250_001))))
    one = '{"traceId":"%032x","spanId":"1111111111111111","startTimeUnixNano":1}'
    text = '{"resourceSpans":[{"scopeSpans":[{"spans":[%s]}]}]}'
    with pytest.raises(NotOtlp, match="250,000 spans in one request: send them in smaller requests"):
        decode_json(text % ",".join(one % index for index in range(1, 250_002)))
    assert len(decode_json(text % ",".join(one % index for index in range(1, 20_001))).spans) == 20_000


_HOSTILE = """
import resource, sys
from agentprof_collector.receive.otlp import NotOtlp, decode_json, decode_protobuf
from test_pieces import MIB, field, number, request, span
big = 64 * MIB - 200
json = '{"resourceSpans":[{"scopeSpans":[{"spans":[%s{}]}]}]}'
named = field(0x0A, b"agentprof.x")
bodies = {
    "spans": lambda: field(0x0A, field(0x12, b"\\x12\\x00" * (big // 2))),
    "groups": lambda: b"\\x0a\\x00" * (big // 2),
    "scopes": lambda: field(0x0A, b"\\x12\\x00" * (big // 2)),
    "attributes": lambda: request(span(1, b"\\x4a\\x00" * (big // 2))),
    "events": lambda: request(span(1, b"\\x5a\\x00" * (big // 2))),
    "list": lambda: request(span(1, field(0x4A, named + field(0x12, field(0x2A, b"\\x0a\\x00" * (big // 2)))))),
    "json spans": lambda: json % ("{}," * (big // 3)),
    "json wrong": lambda: json % ("[]," * (big // 3)),
    "json texts": lambda: json % ('"ab",' * (big // 5)),
}
body = bodies[sys.argv[1]]()
before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    batch = (decode_json if isinstance(body, str) else decode_protobuf)(body)
    print("read", len(batch.spans), batch.skipped)
except NotOtlp as error:
    print("refused", error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) // 1024)
"""


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("spans", "refused there are too many spans"),
        ("groups", "refused there are too many spans"),
        ("scopes", "refused there are too many spans"),
        ("attributes", "refused a span may have 65,536 attributes"),
        ("events", "refused a span may have 65,536 attributes"),
        ("list", "read 1 0"),
        ("json spans", "refused the JSON has more than 8,000,000 values"),
        ("json wrong", "refused the JSON has more than 8,000,000 values"),
        ("json texts", "refused the JSON has more than 8,000,000 values"),
    ],
)
def test_hostile_requests_take_little_memory(kind: str, says: str) -> None:
    """64 MiB of the smallest parts there are take no more again than the request itself."""
    pytest.importorskip("resource", reason="the peak of memory is read as Unix gives it")
    where = [sys.path[0], __file__.rpartition("/")[0]]
    program = f"import sys; sys.path[:0] = {where!r}\n" + _HOSTILE
    done = subprocess.run([sys.executable, "-c", program, kind], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said, grown_mib = done.stdout.splitlines()
    assert said.startswith(says)
    assert int(grown_mib) < 100
