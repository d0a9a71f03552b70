import gzip
import io
import json
import re
import time
import tracemalloc
import zlib
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentprof_collector.errors import InputError
from agentprof_collector.receive import files
from agentprof_collector.receive.files import read_batches


def line(span_id: int) -> bytes:
    """One request in JSON with one span."""
    span = {"traceId": "1" * 32, "spanId": f"{span_id:016x}", "startTimeUnixNano": "1", "name": "n"}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def message(span_id: int) -> bytes:
    """The same request in protobuf."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="n", start_time_unix_nano=1)
    span.trace_id, span.span_id = bytes.fromhex("1" * 32), span_id.to_bytes(8, "big")
    return request.SerializeToString()


def ids(data: bytes) -> list[int]:
    """Span ids in the order read."""
    batches = read_batches(io.BytesIO(data), "input")
    return [int(span.span_id, 16) for batch in batches for span in batch.spans]


FORMS = {
    "json lines": line(1) + b"\n" + line(2) + b"\n",
    "no newline at the end": line(1) + b"\n" + line(2),
    "blank lines and CRLF": b"\n" + line(1) + b"\r\n\r\n" + line(2) + b"\r\n",
    "byte order mark": b"\xef\xbb\xbf" + line(1) + b"\n" + line(2),
    "length-prefixed protobuf": b"".join(len(m).to_bytes(4, "big") + m for m in (message(1), message(2))),
    "one protobuf message": message(1) + message(2),
    "one document": json.dumps(
        {"resourceSpans": [json.loads(line(n))["resourceSpans"][0] for n in (1, 2)]}, indent=2
    ).encode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compressed", [False, True])
def test_every_form_is_told_by_its_content(form: str, compressed: bool) -> None:
    """The same two spans come out of each encoding, gzip or not."""
    data = gzip.compress(FORMS[form]) if compressed else FORMS[form]
    assert ids(data) == [1, 2]


def test_an_empty_input_holds_nothing() -> None:
    """No bytes, no spans, no error."""
    assert ids(b"") == []


def test_what_stood_before_a_bad_line_is_given() -> None:
    """The error names file and line; the requests before it were yielded."""
    batches = read_batches(io.BytesIO(line(1) + b"\n" + line(2) + b"\n" + line(3)[:-5]), "traces.jsonl")
    assert next(batches).spans[0].span_id == f"{1:016x}"
    assert next(batches).spans[0].span_id == f"{2:016x}"
    with pytest.raises(
        InputError, match=r"traces\.jsonl, line 3: .*truncated.*Expected OTLP traces"
    ) as caught:
        next(batches)
    assert caught.value.line == 3


def test_an_error_inside_a_document_names_its_line() -> None:
    """In a document over many lines the line of the mistake is given."""
    text = b'{\n  "resourceSpans": [\n    {"scopeSpans": [oops]}\n  ]\n}\n'
    with pytest.raises(InputError, match=r"d\.json, line 3"):
        list(read_batches(io.BytesIO(text), "d.json"))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"hello, this is no trace\n", "text that is no JSON"),
        (b"name,duration\na,1\n", "text that is no JSON, so no OTLP traces"),
        (b"\x0a\xff\xff\x00\x01", "no protobuf"),
        (gzip.compress(line(1) + b"\n" + line(2) + b"\n")[:-12], "gzip data is damaged"),
        (b"\x28\xb5\x2f\xfd....", "zstd"),
        (len(message(1)).to_bytes(4, "big") + message(1) + b"\x00\x00", "ends inside request 2"),
        (b'{"data": []}\n', "line 1: expected the key resourceSpans"),
    ],
)
def test_a_refusal_says_what_came_and_what_to_do(data: bytes, says: str) -> None:
    """Input of another kind, or cut off, is an error that says so."""
    with pytest.raises(InputError, match=says):
        list(read_batches(io.BytesIO(data), "f"))


def read(data: bytes) -> tuple[list[int], InputError | None]:
    """Span ids, and the error at the end."""
    found: list[int] = []
    try:
        for batch in read_batches(io.BytesIO(data), "f"):
            found += [int(span.span_id, 16) for span in batch.spans]
    except InputError as error:
        return found, error
    return found, None


BAD_LINES = {
    "no JSON": b"{bad",
    "cut off": line(9)[:-7],
    "something else": b'{"data": []}',
    "binary": b"\x00\xff\xfe",
    "nested without end": b"[" * 100_000,
}


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_bad_line_costs_itself(bad: bytes, place: int) -> None:
    """At any place of the file: the others are read, and the error names the line."""
    lines = [line(1), line(2)]
    lines.insert(place, bad)
    if place == 0 and bad == BAD_LINES["binary"]:
        lines.insert(0, b"")
        place += 1
    found, error = read(b"\n".join(lines) + b"\n")
    assert found == [1, 2]
    assert error is not None
    assert error.line == place + 1
    assert str(error).startswith(f"f, line {place + 1}: ")
    assert "1 line could not be read, the others are stored. Expected OTLP traces" in str(error)


def test_many_bad_lines_are_counted() -> None:
    """The first is named, the others are a number."""
    found, error = read(b"\n".join([line(1), b"{a", b"", b"{b", line(2), b"{c"]))
    assert found == [1, 2]
    assert error is not None
    assert error.line == 2
    assert "3 lines could not be read" in str(error)


def test_bad_requests_between_good_ones() -> None:
    """In length-prefixed protobuf, too, a request that cannot be read costs itself."""
    requests = [message(1), b"\xff\xff\xff", b"", message(2), b""]
    found, error = read(b"".join(len(m).to_bytes(4, "big") + m for m in requests))
    assert found == [1, 2]
    assert error is not None
    assert str(error).startswith("f: request 2: ")
    assert "1 request could not be read, the others are stored" in str(error)


def test_what_was_left_out_of_a_request_has_a_place() -> None:
    """A batch with a value or span left out says where it stood."""
    odd = line(2).replace(b'"n"', b"5")
    batches = list(read_batches(io.BytesIO(b"\n" + line(1) + b"\n" + odd), "f"))
    assert [(batch.lost, batch.line) for batch in batches] == [(0, None), (1, 3)]


@pytest.mark.parametrize("limited", ["line", "first line", "request", "message", "document"])
def test_what_is_too_long_costs_itself(limited: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is skipped without being kept, and what follows is read."""
    monkeypatch.setattr(files, "REQUEST_LIMIT", 1000)
    monkeypatch.setattr(files, "_PIECE", 100)
    filler = b" " * 5_000
    long_message = message(9) + b"\x1a\x90\x4e" + b"x" * 10_000
    inputs = {
        "line": line(1) + b"\n" + line(9) + filler + b"\n" + line(2),
        "first line": line(9) + filler + b"\n" + line(1) + b"\n" + line(2),
        "request": b"".join(len(m).to_bytes(4, "big") + m for m in (message(1), long_message, message(2))),
        "message": long_message,
        "document": b"{\n" + filler + line(9)[1:] + b"\n" + line(1) + b"\n" + line(2),
    }
    found, error = read(inputs[limited])
    assert found == ([] if limited == "message" else [1, 2])
    assert error is not None
    if limited != "document":
        assert "longer than 67,108,864 bytes" in str(error)


def peak_bytes(data: bytes) -> tuple[list[int], InputError | None, int]:
    """What was read, and the most memory that was held for it."""
    tracemalloc.start()
    try:
        found, error = read(data)
        return found, error, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [b" ", b"\n", b"\0", b"x", b'{"a":'])
def test_what_is_packed_absurdly_is_not_unpacked(content: bytes) -> None:
    """300 MB in a few hundred kB stop early, with a bound on memory, and say why."""
    packed = zlib.compressobj(9, wbits=31)
    parts = [packed.compress(content * (1_000_000 // len(content))) for _ in range(300)]
    found, error, peak = peak_bytes(b"".join([*parts, packed.flush()]))
    assert found == []
    assert error is not None
    assert re.search(
        "unpacks to more than 500 times its size|longer than 67,108,864 bytes|no JSON", str(error)
    )
    assert peak < 400_000_000


@pytest.mark.parametrize("content", [b"\n", b"\0\0\0\0"])
def test_nothing_in_a_large_file_is_passed_over_quickly(content: bytes) -> None:
    """100 MB of blank lines or empty requests, and a request after them."""
    size = 100_000_000 // len(content)
    last = line(1) if content == b"\n" else len(message(1)).to_bytes(4, "big") + message(1)
    began = time.process_time()
    assert read(content * size + last) == ([1], None)
    assert time.process_time() - began < 5


def test_blank_input_is_empty() -> None:
    """Blank lines hold no spans, and are no error."""
    assert read(b"\n \r\n\t\n") == ([], None)
    assert read(gzip.compress(b"\n" * 10_000)) == ([], None)


def test_several_gzip_members_are_one_stream() -> None:
    """As files that were joined, or appended to, have them."""
    assert read(gzip.compress(line(1) + b"\n") + gzip.compress(line(2) + b"\n")) == ([1, 2], None)


def test_real_files(shared: Path) -> None:
    """The published traces of real agents are read whole, with nothing left out."""
    truth = [json.loads(row) for row in (shared / "data/traces/truth.jsonl").read_text().splitlines()]
    assert len(truth) >= 60
    for row in truth:
        path = shared / "data/traces" / row["file"]
        with path.open("rb") as stream:
            batches = list(read_batches(stream, path.name))
        assert sum(batch.skipped for batch in batches) == 0
        distinct = {(span.trace_id, span.span_id) for batch in batches for span in batch.spans}
        assert len(distinct) == row["spans"], path.name
