"""The lean messages say of any bytes what OTLP's own messages say."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from agentprof_collector.receive import wire

NAMES = ("gen_ai.operation.name", "gen_ai.usage.input_tokens", "agentprof.x", "app.detail", "", "ä" * 70)


def plain(value: AnyValue) -> Any:
    """The value as protobuf's own library gives it."""
    field = value.WhichOneof("value")
    if field is None:
        return None
    if field == "array_value":
        return [plain(item) for item in value.array_value.values]
    if field == "kvlist_value":
        return {pair.key: plain(pair.value) for pair in value.kvlist_value.values}
    return getattr(value, field)


def wanted(name: str) -> bool:
    return name.startswith(("gen_ai.", "agentprof.", "ä"))


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    # NaN is not equal to itself, and 1, 1.0 and True are equal.
    return repr(sorted(ours.items())) == repr(sorted(theirs.items()))


scalars = st.one_of(
    st.builds(lambda x: AnyValue(string_value=x), st.text(max_size=200)),
    st.builds(lambda x: AnyValue(int_value=x), st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda x: AnyValue(int_value=x), st.integers(0, 100_000)),
    st.builds(lambda x: AnyValue(double_value=x), st.floats()),
    st.builds(lambda x: AnyValue(bool_value=x), st.booleans()),
    st.builds(lambda x: AnyValue(bytes_value=x), st.binary(max_size=20)),
    st.just(AnyValue()),
)


def array(items: list[AnyValue]) -> AnyValue:
    made = AnyValue()
    made.array_value.values.extend(items)
    return made


def pairs(items: list[tuple[str, AnyValue]]) -> AnyValue:
    made = AnyValue()
    made.kvlist_value.values.extend(KeyValue(key=key, value=value) for key, value in items)
    return made


any_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(array),
        st.lists(st.tuples(st.sampled_from(NAMES), inner), max_size=3).map(pairs),
    ),
    max_leaves=5,
)


@given(st.lists(st.tuples(st.sampled_from(NAMES), any_values), max_size=8))
def test_values_are_those_of_protobufs_own_library(sent: list[tuple[str, AnyValue]]) -> None:
    """Every kind of value is read alike, the first time a name is seen and later; the unwanted are left out."""
    attributes = wire.Attributes(wanted)
    encoded = [KeyValue(key=key, value=value).SerializeToString() for key, value in sent]
    expected = {key: plain(value) for key, value in sent if wanted(key)}
    assert same(attributes.read(encoded), expected)
    assert same(attributes.read(encoded), expected)


@given(
    st.sampled_from(NAMES),
    any_values,
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255), st.sampled_from("xid")), max_size=3),
)
def test_a_pair_in_any_spelling_is_read_as_protobufs_own_library_reads_it(
    key: str, value: AnyValue, changes: list[tuple[int, int, str]]
) -> None:
    """Fields in another order, twice, unknown, in longer numbers: changed bytes that are still a pair mean the same."""
    attributes = wire.Attributes(wanted)
    whole = KeyValue(key=key, value=value).SerializeToString()
    attributes.read([whole])
    changed = bytearray(whole)
    for at, byte, how in changes:
        at = min(at, len(changed))
        if how == "x":
            changed[at : at + 1] = bytes([byte])
        elif how == "i":
            changed[at:at] = bytes([byte])
        else:
            del changed[at : at + 1]
    try:
        read = KeyValue.FromString(bytes(changed))
    except DecodeError:
        return
    expected = {read.key: plain(read.value)} if wanted(read.key) else {}
    assert same(attributes.read([bytes(changed)]), expected)


NAME = b"gen_ai.system"
HEAD = b"\n\x0d" + NAME


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (HEAD + b"\x12\x05\x0a\x03abc", "abc"),
        (b"\x12\x05\x0a\x03abc" + HEAD, "abc"),
        (b"\n\x03old" + HEAD + b"\x12\x05\x0a\x03abc", "abc"),
        (HEAD + b"\x12\x05\x0a\x03abc\x12\x02\x18\x07", 7),
        (HEAD + b"\x12\x07\x0a\x03abc\x18\x07", 7),
        (HEAD + b"\x12\x03\x18\x87\x00", 7),
        (HEAD + b"\x12\x83\x00\x18\x87\x00", 7),
        (HEAD + b"\x12\x0b\x18" + b"\xff" * 9 + b"\x01", -1),
        (HEAD + b"\x12\x0a\x18" + b"\xff" * 8 + b"\x7f", 2**63 - 1),
        (HEAD + b"\x12\x09\x21" + struct.pack("<d", 0.25), 0.25),
        (HEAD + b"\x12\x02\x10\x02", True),
        (HEAD + b"\x12\x02\x0a\x00", ""),
        (HEAD + b"\x12\x00", None),
        (HEAD, None),
        (HEAD + b"\x12\x02\x18\x07\x1a\x01x", 7),
    ],
)
def test_spellings_of_one_pair(pair: bytes, expected: object) -> None:
    """A pair may say its parts in any order, more than once, with more bytes than needed, and more than is known."""
    attributes = wire.Attributes(lambda name: name == NAME.decode())
    attributes.read([HEAD + b"\x12\x02\x18\x01", b"\n\x03old\x12\x02\x18\x01"])
    assert KeyValue.FromString(pair).key == NAME.decode()
    assert attributes.read([pair]) == {NAME.decode(): expected}


def test_an_unwanted_name_may_become_a_wanted_one() -> None:
    """A pair that begins with an unwanted name and then says another is no unwanted one."""
    attributes = wire.Attributes(lambda name: name == "a")
    unwanted = b"\n\x03old\x12\x02\x18\x01"
    assert attributes.read([unwanted, unwanted]) == {}
    assert attributes.read([unwanted + b"\n\x01a"]) == {"a": 1}


def test_names_without_end_are_not_all_remembered() -> None:
    """A sender that makes up names takes no more memory with each, and is still read rightly."""
    attributes = wire.Attributes(lambda name: name.endswith("7"))
    for number in range(12_000):
        pair = KeyValue(key=f"name.{number}", value=AnyValue(int_value=number)).SerializeToString()
        assert attributes.read([pair]) == ({f"name.{number}": number} if number % 10 == 7 else {})
    assert len(attributes._heads) == 10_000


def test_the_fields_of_a_span_stand_where_otlp_has_them() -> None:
    """What OTLP's own message wrote is read under the same name."""
    rng = random.Random(3)
    message = ExportTraceServiceRequest()
    sent = (
        message.resource_spans.add()
        .scope_spans.add()
        .spans.add(
            trace_id=rng.randbytes(16),
            span_id=rng.randbytes(8),
            parent_span_id=rng.randbytes(8),
            name="chat",
            kind=3,
            start_time_unix_nano=2**63,
            end_time_unix_nano=5,
            trace_state="not read",
        )
    )
    sent.status.code = sent.status.STATUS_CODE_ERROR
    message.resource_spans[0].scope_spans[0].scope.name = "lib"
    read = wire.Request.FromString(message.SerializeToString())
    (scope_spans,) = read.resource_spans[0].scope_spans
    (span,) = scope_spans.spans
    assert scope_spans.scope.name == "lib"
    assert span.status.code == 2
    for field in ("trace_id", "span_id", "parent_span_id", "name", "kind", "start_time_unix_nano"):
        assert getattr(span, field) == getattr(sent, field)
    assert span.end_time_unix_nano == 5
