"""A large OTLP protobuf request → requests of about a megabyte each, which hold the same spans.

Messages take up to a hundred times the memory of their bytes: a request of nothing but empty spans would take
gigabytes if it were read as one. What is walked over here is only what holds spans, down to the single span.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

PIECE: Final = 1024 * 1024
"""Bytes above which a request is cut."""
_AROUND: Final = 64 * 1024
"""Bytes of a resource, or of a scope: they stand in every piece. Of a field of a span that is larger than a piece."""
_FIELDS: Final = 64 * 1024
"""Fields of a message that is cut, beside those that hold spans."""

# What holds the next: resource spans, scope spans, spans (collector/trace/v1, trace/v1); all are bytes. Log
# records and metrics are held in the same way, under the same numbers.
_ITEMS: Final = (0x0A, 0x12, 0x12)
_EVENTS, _LINKS = 0x5A, 0x6A
_BYTES, _VARINT, _FIXED64, _FIXED32 = 2, 0, 1, 5


class Malformed(ValueError):
    """The bytes are no message."""


class TooMuch(ValueError):
    """The message holds more than is read at once; the text says of what."""


class Pieces:
    """Cuts one request.

    Args:
        data: the request.
        limit: of things that hold spans, and spans, in what must be cut.
    """

    def __init__(self, data: bytes, limit: int) -> None:
        self._data = data
        self._left = limit
        self.left_out = 0
        """Spans that are larger than a piece without their large fields, events and links."""

    def __iter__(self) -> Iterator[bytes]:
        """Requests with the spans in their order.

        Raises:
            Malformed: no message.
            TooMuch: it has more parts than the limit.
        """
        return self._cut(0, len(self._data), 0)

    def _cut(self, at: int, end: int, level: int) -> Iterator[bytes]:
        item = bytes((_ITEMS[level],))
        around, items = self._parts(at, end, _ITEMS[level])
        if level == 0:
            around = b""  # A request has no fields but its spans.
        if len(around) > _AROUND:
            raise TooMuch(f"a resource or a scope may have {_AROUND:,} bytes")
        together: list[bytes] = []
        size = 0
        for start, content, stop in items:
            whole = self._data[start:stop]
            is_large = len(whole) > PIECE
            if is_large and level == len(_ITEMS) - 1:
                small = self._without_large_fields(content, stop)
                whole = item + _written(len(small)) + small
                is_large = False
                if len(whole) > PIECE:
                    self.left_out += 1
                    continue
            if together and size + len(whole) > PIECE:
                yield around + b"".join(together)
                together, size = [], 0
            if is_large:
                for inner in self._cut(content, stop, level + 1):
                    yield around + item + _written(len(inner)) + inner
            else:
                together.append(whole)
                size += len(whole)
        if together:
            yield around + b"".join(together)

    def _without_large_fields(self, at: int, end: int) -> bytes:
        """A span without what makes it large, which is what was said in a call, and is not kept."""
        kept: list[bytes] = []
        fields = 0
        while at < end:
            tag, content = self._varint(at, end)
            stop = self._end_of(tag & 7, content, end)
            if stop - at <= _AROUND and tag not in (_EVENTS, _LINKS):
                kept.append(self._data[at:stop])
            fields += 1
            if fields > _FIELDS:
                raise TooMuch(f"a span may have {_FIELDS:,} attributes")
            at = stop
        return b"".join(kept)

    def _parts(self, at: int, end: int, item: int) -> tuple[bytes, list[tuple[int, int, int]]]:
        """What stands around the items, and where each item and its content begin, and end."""
        around: list[bytes] = []
        items: list[tuple[int, int, int]] = []
        while at < end:
            tag, content = self._varint(at, end)
            stop = self._end_of(tag & 7, content, end)
            if tag == item:
                self._left -= 1
                if self._left < 0:
                    raise TooMuch(
                        "there are too many spans or records in one request: send them in smaller requests"
                    )
                content = self._varint(content, end)[1]
                items.append((at, content, stop))
            else:
                around.append(self._data[at:stop])
                if len(around) > _FIELDS:
                    raise TooMuch(f"a resource or a scope may have {_FIELDS:,} fields")
            at = stop
        return b"".join(around), items

    def _end_of(self, kind: int, at: int, end: int) -> int:
        """Where a field ends whose content, or its length, begins here."""
        if kind == _BYTES:
            size, at = self._varint(at, end)
            stop = at + size
        elif kind == _VARINT:
            stop = self._varint(at, end)[1]
        elif kind in (_FIXED64, _FIXED32):
            stop = at + (8 if kind == _FIXED64 else 4)
        else:
            raise Malformed(f"it has a field of kind {kind}, which is not read in a large request")
        if stop > end:
            raise Malformed("it ends inside a field")
        return stop

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """A number of up to ten bytes, and where it ends."""
        value = shift = 0
        for position in range(at, min(end, at + 10)):
            byte = self._data[position]
            value |= (byte & 127) << shift
            if byte < 128:
                return value, position + 1
            shift += 7
        raise Malformed("it ends inside a number")


def _written(number: int) -> bytes:
    """A number as a varint."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)
