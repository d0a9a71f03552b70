"""A stream that may be gzip → its content, piece by piece; stops at what is packed absurdly."""

from __future__ import annotations

import gzip
import io
from typing import BinaryIO, cast

from agentprof_collector.errors import InputError

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BUFFER = 256 * 1024
RATIO_LIMIT = 500
"""Traces are packed 10 to 100 times; what is packed more holds next to nothing."""
RATIO_FROM = 100 * 1024 * 1024
"""Bytes unpacked before the ratio is looked at."""


def unpacked(stream: BinaryIO, source: str) -> io.BufferedReader:
    """The content of a stream, decompressed as it is read if it begins like gzip.

    Raises:
        InputError: it is packed with zstd; later, on reading: with a ratio that no traces have.
    """
    data = _peekable(stream)
    head = data.peek(4)[:4]
    if head == _ZSTD:
        raise InputError(source, "is compressed with zstd", "Decompress it first (zstd -d).")
    if head[:2] != _GZIP:
        return data
    return io.BufferedReader(_Unpacking(data, source), _BUFFER)


def _peekable(stream: BinaryIO) -> io.BufferedReader:
    if isinstance(stream, io.BufferedReader):
        return stream
    return io.BufferedReader(cast("io.RawIOBase", stream), _BUFFER)


class _Counted(io.RawIOBase):
    """Counts the bytes taken from a stream."""

    def __init__(self, data: io.BufferedReader) -> None:
        self._data = data
        self.taken = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._data.read(size)
        self.taken += len(piece)
        return piece


class _Unpacking(io.RawIOBase):
    def __init__(self, data: io.BufferedReader, source: str) -> None:
        self._packed = _Counted(data)
        self._content = gzip.GzipFile(fileobj=self._packed, mode="rb")
        self._source = source
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        piece = self._content.read(len(view))
        view[: len(piece)] = piece
        self._given += len(piece)
        if self._given > RATIO_FROM and self._given > RATIO_LIMIT * self._packed.taken:
            what = f"unpacks to more than {RATIO_LIMIT} times its size, as no traces do; stopped there"
            raise InputError(self._source, what, "Check what wrote it; unpack it first if it is right.")
        return len(piece)
