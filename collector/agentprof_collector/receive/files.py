"""A file or stream of export requests → batches of spans, in the order they stand there.

The encoding is told by the content, never by the name: gzip or not; JSON with one request a line, or one
document over many lines; one protobuf request; or the Collector's file exporter's protobuf, where each
request follows its length as four bytes, big end first.

A request that cannot be read costs itself. Memory is bounded whatever the input: a request has a size limit,
and what is longer is skipped, not kept.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from agentprof_collector.errors import InputError
from agentprof_collector.receive import Batch
from agentprof_collector.receive.otlp import NotOtlp, decode_json, decode_protobuf
from agentprof_collector.receive.unpack import unpacked

REQUEST_LIMIT = 64 * 1024 * 1024
"""Bytes of a line or a request."""

_BOM = b"\xef\xbb\xbf"
# A brace and then a key that begins with a printable character: protobuf, too, can begin with "\n{".
_JSON = re.compile(rb'\s*[\[{]\s*(?:"(?:[^\x00-\x1f]|\Z)|[}\]{]|\Z)')
_TEXT = re.compile(rb"[\t\r\n -~\x80-\xff]+")
_EXPECTED = "Expected OTLP traces: JSON (one ExportTraceServiceRequest a line) or protobuf, gzip or not."
_CUT_OFF = "The file may be cut off: fetch or write it again."
_TOO_LONG = f"longer than {REQUEST_LIMIT:,} bytes"
_PIECE = 1024 * 1024


def read_batches(stream: BinaryIO, source: str) -> Iterator[Batch]:
    """The requests of a stream, decoded one at a time.

    Args:
        stream: binary; need not be seekable.
        source: its name, for errors.

    Raises:
        InputError: with source, line where there are lines, and what to do. Batches yielded before it hold.
            For lines and requests that could not be read it comes at the end, after all others.
    """
    try:
        yield from _decode(unpacked(stream, source), source)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(source, f"the gzip data is damaged ({error})", _CUT_OFF) from error
    except OSError as error:
        raise InputError(source, f"cannot be read ({error.strerror or error})", "Check the file.") from error


def _decode(data: io.BufferedReader, source: str) -> Iterator[Batch]:
    head = data.peek(4096)[:4096]
    if not head:
        return
    bad = _Bad(source)
    if not head.strip() or _JSON.match(head.removeprefix(_BOM)):
        yield from _json(data, bad)
    elif head[0] == 0:
        yield from _length_prefixed(data, bad)
    else:
        yield from _one_message(data, bad)
    bad.raise_if_any()


class _Bad:
    """The requests of one input that could not be read."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.read = 0
        """Requests that could be read."""
        self._count = 0
        self._noun = "line"
        self._first: tuple[str, int | None] = ("", None)

    def add(self, what: str, number: int | None, noun: str = "line") -> None:
        """Note one, with its line or number."""
        if not self._count:
            self._first = (what, number)
        self._count += 1
        self._noun = noun

    def raise_if_any(self) -> None:
        """Say how many there were, and what was wrong with the first."""
        if not self._count:
            return
        what, number = self._first
        if self._noun != "line" and number is not None:
            what, number = f"request {number}: {what}", None
        advice = _EXPECTED
        if self.read or self._count > 1:
            stored = "the others are stored" if self.read else "none could"
            plural = "" if self._count == 1 else "s"
            advice = f"{self._count:,} {self._noun}{plural} could not be read, {stored}. {advice}"
        raise InputError(self.source, what, advice, line=number)


def _placed(batch: Batch, number: int) -> Batch:
    """With its place if something of it was left out."""
    return msgspec.structs.replace(batch, line=number) if batch.skipped or batch.lost else batch


# --- JSON ----------------------------------------------------------------------------------------


def _json(data: io.BufferedReader, bad: _Bad) -> Iterator[Batch]:
    """Lines; or one document over many, where the first line is no request and all together are one."""
    lines = _lines(data)
    for number, line in lines:
        if line is None:
            bad.add(_TOO_LONG, number)
            continue
        try:
            first = decode_json(line)
        except NotOtlp:
            yield from _document_or_lines(line, data, number, bad)
            return
        bad.read += 1
        yield _placed(first, number)
        break
    yield from _requests(lines, bad)


def _requests(lines: Iterator[tuple[int, bytes | None]], bad: _Bad) -> Iterator[Batch]:
    for number, line in lines:
        if line is None:
            bad.add(_TOO_LONG, number)
            continue
        try:
            batch = decode_json(line)
        except NotOtlp as error:
            bad.add(str(error), number)
            continue
        bad.read += 1
        yield _placed(batch, number)


def _document_or_lines(first: bytes, data: io.BufferedReader, number: int, bad: _Bad) -> Iterator[Batch]:
    text = first + data.read(REQUEST_LIMIT)
    try:
        document = decode_json(text)
    except NotOtlp as error:
        yield from _requests(_lines(_chained(text, data), number - 1), bad)
        if not bad.read:
            at_byte = re.search(r"\(byte (\d+)\)", str(error))
            line = number + (text.count(b"\n", 0, int(at_byte[1])) if at_byte else 0)
            raise InputError(bad.source, str(error), _EXPECTED, line=line) from error
    else:
        bad.read += 1
        yield _placed(document, number)


def _lines(data: io.BufferedReader, number: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Lines with something in them and their numbers; None for one that is too long.

    Args:
        number: lines that stood before.
    """
    while line := data.readline(REQUEST_LIMIT + 1):
        number += 1
        if len(line) > REQUEST_LIMIT and not line.endswith(b"\n"):
            del line
            while (piece := data.readline(_PIECE)) and not piece.endswith(b"\n"):
                pass
            yield number, None
        elif line.isspace():
            number += _skip_blank_lines(data)
        else:
            yield number, line.removeprefix(_BOM) if number == 1 else line


def _skip_blank_lines(data: io.BufferedReader) -> int:
    """How many blank lines were skipped: as many as the buffer holds, without looking at each."""
    ahead = data.peek()
    end = ahead[: len(ahead) - len(ahead.lstrip())].rfind(b"\n") + 1
    return data.read(end).count(b"\n")


def _chained(text: bytes, data: io.BufferedReader) -> io.BufferedReader:
    return io.BufferedReader(_Chained(text, data), _PIECE)


class _Chained(io.RawIOBase):
    """Some bytes, then those of a stream."""

    def __init__(self, text: bytes, data: io.BufferedReader) -> None:
        self._parts = [io.BytesIO(text), data]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            size = self._parts[0].readinto(buffer)
            if size or len(self._parts) == 1:
                return size
            del self._parts[0]


# --- protobuf ------------------------------------------------------------------------------------


def _one_message(data: io.BufferedReader, bad: _Bad) -> Iterator[Batch]:
    """One protobuf message, or lines of JSON of which the first is none."""
    message = data.read(REQUEST_LIMIT + 1)
    try:
        if len(message) > REQUEST_LIMIT:
            raise NotOtlp(f"one protobuf message {_TOO_LONG}")
        batch = decode_protobuf(message)
    except NotOtlp as error:
        if b'"resourceSpans"' in message:
            yield from _requests(_lines(_chained(message, data)), bad)
            return
        is_text = len(message) <= REQUEST_LIMIT and _TEXT.fullmatch(message[:4096])
        what = "text that is no JSON, so no OTLP traces" if is_text else str(error)
        raise InputError(bad.source, what, _EXPECTED) from error
    yield _placed(batch, 1)


def _length_prefixed(data: io.BufferedReader, bad: _Bad) -> Iterator[Batch]:
    number = 0
    while prefix := data.read(4):
        number += 1
        length = int.from_bytes(prefix, "big")
        if len(prefix) < 4:
            raise _ends_inside(bad, number)
        if length == 0:
            number += _skip_empty(data)
            continue
        if length > REQUEST_LIMIT:
            _skip(data, length, bad, number)
            bad.add(_TOO_LONG, number, "request")
            continue
        message = data.read(length)
        if len(message) < length:
            raise _ends_inside(bad, number)
        try:
            batch = decode_protobuf(message)
        except NotOtlp as error:
            bad.add(str(error), number, "request")
            continue
        bad.read += 1
        yield _placed(batch, number)


def _skip_empty(data: io.BufferedReader) -> int:
    """How many empty requests were skipped: as many as the buffer holds, without looking at each."""
    ahead = data.peek()
    empty = (len(ahead) - len(ahead.lstrip(b"\0"))) // 4
    data.read(empty * 4)
    return empty


def _skip(data: io.BufferedReader, length: int, bad: _Bad, number: int) -> None:
    left = length
    while left:
        piece = data.read(min(left, _PIECE))
        if not piece:
            raise _ends_inside(bad, number)
        left -= len(piece)


def _ends_inside(bad: _Bad, number: int) -> InputError:
    return InputError(bad.source, f"ends inside request {number:,}", _CUT_OFF)
