"""Splits a stream of AWS, `application/vnd.amazon.eventstream`, into the JSON of its events.

A frame is: its length and that of its headers (4 bytes each, big-endian), a checksum, headers, payload, a
checksum. A header is: length and bytes of its name, its type, its value
(https://smithy.io/2.0/aws/amazon-eventstream.html). Checksums are the business of who reads the stream.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Final

_PRELUDE: Final = struct.Struct(">III")
_CHECKSUM: Final = 4
_LONGEST: Final = 64 * 1024 * 1024
_TEXT: Final = 7
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type; those of texts and bytes say it themselves."""


def is_frame(start: bytes) -> bool:
    """Whether a stream that begins with these bytes may be one of frames: no text begins with a 0."""
    return start[:1] == b"\0"


class Frames:
    """The frames of one stream."""

    __slots__ = ("_payload", "done", "rest")

    def __init__(self, payload: Callable[[str, bytes], bytes]) -> None:
        """Begin.

        Args:
            payload: Makes the data of an event from the type and the payload of its frame.
        """
        self.rest = b""
        self.done = False
        self._payload = payload

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every frame that is complete with these bytes."""
        data, at, found = self.rest + chunk, 0, []
        while len(data) - at >= _PRELUDE.size:
            size, headers_size, _ = _PRELUDE.unpack_from(data, at)
            if not _PRELUDE.size + headers_size + _CHECKSUM <= size <= _LONGEST:
                at = len(data)  # no frames, or a broken one: where the next begins is not known
                break
            if len(data) - at < size:
                break
            begin = at + _PRELUDE.size
            headers = _texts(data[begin : begin + headers_size])
            payload = data[begin + headers_size : at + size - _CHECKSUM]
            at += size
            found.append(self._event(headers, payload))
        self.rest = data[at:]
        return [event for event in found if event]

    def _event(self, headers: dict[str, str], payload: bytes) -> bytes:
        if headers.get(":message-type") in ("exception", "error"):
            kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
            return json.dumps({"type": "error", "error": {"type": kind}}).encode()
        return self._payload(headers.get(":event-type", ""), payload)

    def finish(self) -> list[bytes]:
        """Half a frame says nothing."""
        return []


def _texts(data: bytes) -> dict[str, str]:
    """Those headers whose values are texts, as far as they can be read."""
    found, at = {}, 0
    while at < len(data):
        name_end = at + 1 + data[at]
        kind = data[name_end] if name_end < len(data) else -1
        begin = name_end + 1
        size = _SIZES.get(kind)
        if size is None:
            if kind not in (6, _TEXT) or begin + 2 > len(data):
                break
            size = int.from_bytes(data[begin : begin + 2])
            begin += 2
        if kind == _TEXT:
            name = data[at + 1 : name_end].decode("ascii", "replace")
            found[name] = data[begin : begin + size].decode("utf-8", "replace")
        at = begin + size
    return found
