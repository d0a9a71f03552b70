"""OTLP protobuf as lean messages: attributes stay bytes until somebody wants one of them.

The messages have the numbers and types of OTLP's own, and of its fields only those that are kept. Reading
attributes through OTLP's messages takes most of the time of decoding, and most attributes are of no interest.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE: Final = "agentprof.wire"
_HEADS_KEPT: Final = 10_000
"""Names of attributes that are remembered; of further ones each is looked at anew."""
_LONGEST: Final = 64 * 1024
"""Bytes of a list or map that is read: nothing that is kept is as long, and its parts take ten times the memory."""

# Tags of an AnyValue's fields, and the rest of the encoding.
_STRING: Final = 0x0A
_INT: Final = 0x18
_DOUBLE: Final = 0x21
_DOUBLE_SIZE: Final = 9
_TWO_BYTES: Final = 128
"""From here on a varint takes more than one byte."""
_NEGATIVE: Final = 2**63
_unpack_double = struct.Struct("<d").unpack_from

# message -> (field, number, type or message, repeated)
# (opentelemetry-proto 1.11: collector/trace/v1, trace/v1, common/v1, resource/v1).
_MESSAGES: Final[Mapping[str, tuple[tuple[str, int, int | str, bool], ...]]] = {
    "Request": (("resource_spans", 1, "ResourceSpans", True),),
    "ResourceSpans": (("resource", 1, "Resource", False), ("scope_spans", 2, "ScopeSpans", True)),
    "Resource": (("attributes", 1, _Field.TYPE_BYTES, True),),
    "ScopeSpans": (("scope", 1, "Scope", False), ("spans", 2, "Span", True)),
    "Scope": (("name", 1, _Field.TYPE_STRING, False),),
    "Span": (
        ("trace_id", 1, _Field.TYPE_BYTES, False),
        ("span_id", 2, _Field.TYPE_BYTES, False),
        ("parent_span_id", 4, _Field.TYPE_BYTES, False),
        ("name", 5, _Field.TYPE_STRING, False),
        ("kind", 6, _Field.TYPE_INT32, False),
        ("start_time_unix_nano", 7, _Field.TYPE_FIXED64, False),
        ("end_time_unix_nano", 8, _Field.TYPE_FIXED64, False),
        ("attributes", 9, _Field.TYPE_BYTES, True),
        ("status", 15, "Status", False),
    ),
    "Status": (("code", 3, _Field.TYPE_INT32, False),),
}


def _message(name: str) -> Any:
    """The class of one of the messages, with all that it holds."""
    file = descriptor_pb2.FileDescriptorProto(name="agentprof/wire.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for field, number, kind, repeated in fields:
            label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            added = described.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                added.type, added.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                added.type = kind  # type: ignore[assignment]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


Request: Any = _message("Request")
"""An ExportTraceServiceRequest; the attributes of resources and spans are encoded KeyValues."""


class Attributes:
    """Reads encoded KeyValues, of those that are of interest.

    Args:
        is_wanted: whether an attribute of this name is of interest.
    """

    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        self._is_wanted = is_wanted
        # What a pair begins with, up to the length of its value -> its name, or "" if of no interest.
        self._heads: dict[bytes, str] = {}

    def read(self, pairs: Iterable[bytes]) -> dict[str, Any]:
        """The values by name; of one name the last.

        The pairs must be known to be well formed, as OTLP's own messages find out.
        """
        found: dict[str, Any] = {}
        head_of = self._heads.get
        for pair in pairs:
            # As nearly all are written: the key, then a value of one short piece, and nothing else.
            try:
                at = pair[1] + 3
                name = head_of(pair[:at])
                size = len(pair) - at - 1
                if name is not None and pair[at] == size < _TWO_BYTES:
                    if not name:
                        continue
                    kind = pair[at + 1]
                    if kind == _STRING and pair[at + 2] == size - 2:
                        found[name] = pair[at + 3 :].decode()
                        continue
                    if kind == _INT:
                        value = shift = 0
                        for byte in pair[at + 2 :]:
                            value |= (byte & 127) << shift
                            shift += 7
                            if byte < _TWO_BYTES:
                                break
                        if value < _NEGATIVE and shift == 7 * (size - 1):
                            found[name] = value
                            continue
                    elif kind == _DOUBLE and size == _DOUBLE_SIZE:
                        (found[name],) = _unpack_double(pair, at + 2)
                        continue
            except IndexError:
                pass
            self._read_any(pair, found)
        return found

    def _read_any(self, pair: bytes, found: dict[str, Any]) -> None:
        read = KeyValue.FromString(pair)
        name = read.key if self._is_wanted(read.key) else ""
        key = read.key.encode()
        if key and len(key) < _TWO_BYTES and len(self._heads) < _HEADS_KEPT:
            self._heads[b"\n%c%b\x12" % (len(key), key)] = name
        if name and (len(pair) <= _LONGEST or read.value.HasField("string_value")):
            found[name] = _value(read.value)


def _value(value: AnyValue) -> Any:
    field = value.WhichOneof("value")
    if field is None:
        return None
    if field == "array_value":
        return [_value(item) for item in value.array_value.values]
    if field == "kvlist_value":
        return {pair.key: _value(pair.value) for pair in value.kvlist_value.values}
    return getattr(value, field)
