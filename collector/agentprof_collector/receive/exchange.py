"""One export request and its answer, whatever carried them: what is refused, unpacked and read."""

from __future__ import annotations

import threading
import zlib
from typing import Final, Literal, NamedTuple

Signal = Literal["traces", "logs", "metrics"]
Media = Literal["protobuf", "json"]

BODY_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a request, as sent and again when unpacked: the default the OTLP specification recommends."""
RETRY_AFTER_S: Final = 1
"""When a sender that was put off may come again."""
_MEMBERS: Final = 1000
"""Parts of one gzip body: writers make one; each costs a copy of what follows it."""
_GZIP_FRAMING: Final = 31


class Request(NamedTuple):
    """An export request as it came."""

    signal: Signal
    media: Media
    encoding: str
    """Content-Encoding as sent; "" for none."""
    body: bytes


class Answer(NamedTuple):
    """An export request that was taken, and what of it was not."""

    rejected: int = 0
    """Spans, log records or data points that are not kept."""
    message: str = ""
    """Why, or a remark where nothing was rejected."""


class Refused(Exception):
    """A request that is not taken.

    Args:
        status: of HTTP; gRPC has its own for each.
        message: what was wrong and what is expected.
        headers: further headers of an HTTP answer, "_" for "-".
    """

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def bare(self) -> Refused:
        """The same without the trace of where it arose: that holds the request, as large as it is."""
        return Refused(self.status, str(self), **self.headers)


def put_off(message: str) -> Refused:
    """A refusal that asks the sender to come again: nothing was taken, nothing is wrong with the request."""
    return Refused(503, message, retry_after=str(RETRY_AFTER_S))


def too_large() -> Refused:
    """A request over the limit; sending it again does not help."""
    return Refused(413, f"a request may have {BODY_LIMIT} bytes, before and after compression")


class Budget:
    """Bytes of requests that are read or wait; what would exceed it is put off."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._taken_bytes = 0
        self._guard = threading.Lock()

    @property
    def taken_bytes(self) -> int:
        """Bytes in hand now."""
        return self._taken_bytes

    def take(self, size_bytes: int) -> None:
        """Count bytes in.

        Raises:
            Refused: there is no room for them now.
        """
        with self._guard:
            if self._taken_bytes + size_bytes > self._limit_bytes:
                raise put_off("too much is waiting to be stored")
            self._taken_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Count bytes out."""
        with self._guard:
            self._taken_bytes -= size_bytes


def unpacked(encoding: str, body: bytes) -> bytes:
    """The body without its compression.

    Raises:
        Refused: damaged, too large, or packed in another way.
    """
    if len(body) > BODY_LIMIT:
        raise too_large()
    kind = encoding.strip().lower()
    if kind in ("", "identity", "none"):
        return body
    if kind != "gzip":
        raise Refused(415, "expected Content-Encoding gzip or none")
    parts: list[bytes] = []
    size = 0
    rest = body
    try:
        while rest:
            if len(parts) >= _MEMBERS:
                raise Refused(400, f"the gzip data has more than {_MEMBERS} members")
            member = zlib.decompressobj(_GZIP_FRAMING)
            parts.append(member.decompress(rest, BODY_LIMIT - size + 1))
            size += len(parts[-1])
            if size > BODY_LIMIT:
                raise too_large()
            if not member.eof:
                raise Refused(400, "the gzip data is cut off")
            rest = member.unused_data
    except zlib.error as error:
        raise Refused(400, f"the gzip data is damaged ({error})") from error
    return b"".join(parts)
