"""Requests that are small on the wire and large in memory, many at once, at a collector in a process of its own."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from support.collect_process import CollectProcess
from support.collecting import GRPC_METHOD, JSON, LOGS, METRICS, PROTOBUF, SPAN, TRACES

MEGABYTE = 1_000_000
LARGEST_BYTES = 600 * MEGABYTE
"""Some times what one request may have: it is unpacked, decoded and understood."""
AT_ONCE = 4


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectProcess]:
    """Its memory is judged after each test."""
    with CollectProcess(tmp_path_factory.mktemp("bombs") / "a.duckdb") as process:
        yield process
        code, said = process.stop()
        assert (code, "Traceback" in said) == (0, False)


def sized(tag: bytes, content: bytes) -> bytes:
    """A field of protobuf that holds bytes."""
    length, found = len(content), bytearray()
    while length > 127:
        found.append(length & 127 | 128)
        length >>= 7
    return tag + bytes([*found, length]) + content


def empty_records() -> bytes:
    """A message of resources, scopes and 30 million empty spans, records or metrics."""
    return sized(b"\x0a", sized(b"\x12", b"\x12\x00" * 30_000_000))


def one_long_text() -> bytes:
    """A span with an attribute of 60 MB that is of interest."""
    value = sized(b"\x12", sized(b"\x0a", b"x" * 60_000_000))
    attribute = sized(b"\x4a", sized(b"\x0a", b"gen_ai.request.model") + value)
    span = (
        sized(b"\x0a", b"t" * 16) + sized(b"\x12", b"s" * 8) + b"\x39" + (5).to_bytes(8, "little") + attribute
    )
    return sized(b"\x0a", sized(b"\x12", sized(b"\x12", span)))


def json_of(key: str, inner: str, items: str) -> bytes:
    """Twenty million empty objects."""
    return f'{{"{key}":[{{"{inner}":[{{"{items}":['.encode() + b"{}," * 20_000_000 + b"{}]}]}]}"


BOMBS: list[tuple[str, str, Callable[[], bytes], int]] = [
    (TRACES, PROTOBUF, lambda: bytes(500 * MEGABYTE), 413),
    (TRACES, PROTOBUF, empty_records, 400),
    (LOGS, PROTOBUF, empty_records, 400),
    (METRICS, PROTOBUF, empty_records, 400),
    (TRACES, PROTOBUF, one_long_text, 200),
    (TRACES, JSON, lambda: json_of("resourceSpans", "scopeSpans", "spans"), 400),
    (LOGS, JSON, lambda: json_of("resourceLogs", "scopeLogs", "logRecords"), 400),
    (TRACES, JSON, lambda: b'{"resourceSpans":' + b"[" * 60_000_000, 400),
]


@pytest.mark.parametrize(("path", "content_type", "content", "status"), BOMBS)
def test_packed_bombs_over_http(
    collector: CollectProcess, path: str, content_type: str, content: Callable[[], bytes], status: int
) -> None:
    """Several of them wait at the same time; each is answered, and others after them."""
    body = gzip.compress(content(), 6)

    def send(number: int) -> int:
        headers = {"content_type": content_type, "content_encoding": "gzip"}
        return collector.otlp.ask(path, "POST", body, **headers).status

    with ThreadPoolExecutor(AT_ONCE) as senders:
        assert list(senders.map(send, range(AT_ONCE))) == [status] * AT_ONCE
    assert collector.otlp.ask(TRACES, "POST", SPAN, content_type=PROTOBUF).status == 200
    assert collector.largest_resident_bytes() < LARGEST_BYTES


def test_packed_bombs_over_grpc(collector: CollectProcess) -> None:
    """What is unpacked is what counts, and it is not unpacked beyond the limit."""
    body = bytes(200 * MEGABYTE)

    def send(number: int) -> grpc.StatusCode:
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(collector.grpc_target, options) as channel:
            export = channel.unary_unary(GRPC_METHOD.format("trace", "Trace"))
            with pytest.raises(grpc.RpcError) as refused:
                export(body, timeout=60, compression=grpc.Compression.Gzip)
        code: grpc.StatusCode = refused.value.code()  # type: ignore[attr-defined]
        return code

    with ThreadPoolExecutor(2) as senders:
        assert set(senders.map(send, range(2))) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert collector.otlp.ask(TRACES, "POST", SPAN, content_type=PROTOBUF).status == 200
    assert collector.largest_resident_bytes() < LARGEST_BYTES
