"""A file or stream of export requests → batches of spans, in the order they stand there.

The encoding is told by the content, never by the name: gzip or not; JSON with one request a line, or one
document over many lines; one protobuf request; or the Collector's file exporter's protobuf, where each
request follows its length as four bytes, big end first.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from agentprof_collector.errors import InputError
from agentprof_collector.receive import Batch
from agentprof_collector.receive.otlp import NotOtlp, decode_json, decode_protobuf

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
# A brace and then a key that begins with a printable character: protobuf, too, can begin with "\n{".
_JSON = re.compile(rb'\s*[\[{]\s*(?:"(?:[^\x00-\x1f]|\Z)|[}\]{]|\Z)')
_EXPECTED = "Expected OTLP traces: JSON (one ExportTraceServiceRequest a line) or protobuf, gzip or not."


def read_batches(stream: BinaryIO, source: str) -> Iterator[Batch]:
    """The requests of a stream, decoded one at a time.

    Args:
        stream: binary; need not be seekable.
        source: its name, for errors.

    Raises:
        InputError: with source, line where there are lines, and what to do. Batches yielded before it hold.
    """
    data = _peekable(stream)
    if data.peek(4)[:4] == _ZSTD:
        raise InputError(source, "is compressed with zstd", "Decompress it first (zstd -d).")
    if data.peek(2)[:2] == _GZIP:
        data = io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=data)))
    try:
        yield from _decode(data, source)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        advice = "The file may be cut off: fetch or write it again."
        raise InputError(source, f"the gzip data is damaged ({error})", advice) from error
    except OSError as error:
        raise InputError(source, f"cannot be read ({error.strerror or error})", "Check the file.") from error


def _peekable(stream: BinaryIO) -> io.BufferedReader:
    if isinstance(stream, io.BufferedReader):
        return stream
    return io.BufferedReader(cast("io.RawIOBase", stream))


def _decode(data: io.BufferedReader, source: str) -> Iterator[Batch]:
    head = data.peek(4096)[:4096]
    if not head:
        return
    if _JSON.match(head.removeprefix(_BOM)):
        yield from _json(data, source)
    elif head[0] == 0:
        yield from _length_prefixed(data, source)
    else:
        yield _protobuf(data.read(), source)


def _json(data: io.BufferedReader, source: str) -> Iterator[Batch]:
    number = 0
    decoded_any = False
    for number, raw in enumerate(data, start=1):
        line = raw.removeprefix(_BOM) if number == 1 else raw
        if not line.strip():
            continue
        try:
            batch = decode_json(line)
        except NotOtlp as error:
            if not decoded_any and (rest := data.read()).strip():
                yield _document(line + rest, source, number)
                return
            raise InputError(source, str(error), _EXPECTED, line=number) from error
        decoded_any = True
        yield batch


def _document(text: bytes, source: str, first_line: int) -> Batch:
    """One request written over many lines."""
    try:
        return decode_json(text)
    except NotOtlp as error:
        at_byte = re.search(r"\(byte (\d+)\)", str(error))
        line = first_line + (text.count(b"\n", 0, int(at_byte[1])) if at_byte else 0)
        raise InputError(source, str(error), _EXPECTED, line=line) from error


def _protobuf(message: bytes, source: str) -> Batch:
    try:
        return decode_protobuf(message)
    except NotOtlp as error:
        raise InputError(source, str(error), _EXPECTED) from error


def _length_prefixed(data: io.BufferedReader, source: str) -> Iterator[Batch]:
    count = 0
    while prefix := data.read(4):
        length = int.from_bytes(prefix, "big")
        message = data.read(length) if len(prefix) == 4 else b""
        if len(prefix) < 4 or len(message) < length:
            what = f"ends inside request {count + 1}"
            raise InputError(source, what, "The file may be cut off: fetch or write it again.")
        yield _protobuf(message, source)
        count += 1
