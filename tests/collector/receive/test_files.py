import gzip
import io
import json
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentprof_collector.errors import InputError
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
        (b"hello, this is no trace\n", "protobuf"),
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
