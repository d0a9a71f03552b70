"""Takes the usage chunk that agentprof asked for out of a stream again, so that the program gets what it asked for."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from agentprof import _guard
from agentprof.dialects._fields import fields_of
from agentprof.dialects._sse import Events

_BOUNDARY: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BEGUN: Final = 3
"""Bytes that may be the beginning of a boundary."""
_LONGEST: Final = 64 * 1024
"""Bytes of a usage chunk at most: a longer event, an image say, is passed on as it comes."""


class _Chunk(msgspec.Struct):
    choices: list[msgspec.Raw] | None = None
    usage: msgspec.Raw = msgspec.Raw()


_read: Final = msgspec.json.Decoder(_Chunk).decode


def with_usage(body: dict[str, Any]) -> dict[str, Any] | None:
    """A request for a stream that asks for the usage chunk too; the given one is not changed.

    Returns:
        None if the program has decided about the chunk itself.
    """
    options = body.get("stream_options")
    if isinstance(options, dict):
        if "include_usage" in options:
            return None
        return {**body, "stream_options": {**options, "include_usage": True}}
    return {**body, "stream_options": {"include_usage": True}} if options is None else None


def bytes_with_usage(body: bytes) -> bytes | None:
    """The same for a serialised request; every value but that of `stream_options` stays as it was written."""
    fields = fields_of(body)
    options = fields.get("stream_options")
    try:
        asked = with_usage({} if options is None else {"stream_options": msgspec.json.decode(options)})
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return msgspec.json.encode(fields | asked) if fields and asked is not None else None


class UsageFilter:
    """Passes a stream of events on without its usage chunk; events are passed on when they are complete."""

    def __init__(self, decoder: Any | None) -> None:
        """Begin.

        Args:
            decoder: Of a compressed stream, which is passed on decompressed.
        """
        self._decoder = decoder
        self._rest = b""
        self._is_long = False
        """Whether the beginning of the event has been passed on."""
        self._failed = False

    def __call__(self, raw: bytes) -> bytes:
        """What the program gets of these bytes.

        Raises:
            Exception: The body cannot be decompressed; the program would get the same error without us.
        """
        data = raw if self._decoder is None else b"".join(self._decoder.decode(raw))
        if self._failed:
            return data
        try:
            return self._without_usage(data)
        except Exception:
            _guard.failed("hiding the usage of a stream")
            self._failed = True
            rest, self._rest = self._rest, b""
            return rest + data

    def _without_usage(self, data: bytes) -> bytes:
        text = self._rest + data
        passed, start = [], 0
        for end in _BOUNDARY.finditer(text):
            event = text[start : end.end()]
            start = end.end()
            if self._is_long or len(event) > _LONGEST or not _is_usage(event):
                passed.append(event)
            self._is_long = False
        self._rest = text[start:]
        if self._is_long or len(self._rest) > _LONGEST:
            self._is_long = True
            passed.append(self._rest[:-_BEGUN])
            self._rest = self._rest[-_BEGUN:]
        return b"".join(passed)

    def finish(self) -> bytes:
        """What is left when the stream is over."""
        rest, self._rest = self._rest, b""
        return b"" if _is_usage(rest) else rest


def _is_usage(event: bytes) -> bool:
    if b'"usage"' not in event:
        return False
    reader = Events()
    for data in (*reader.feed(event), *reader.finish()):
        try:
            chunk = _read(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return chunk.choices == [] and bytes(chunk.usage).startswith(b"{")
    return False
