"""Collectors in the process of a test, on ports the system chooses, and requests for them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.serving import Answered, Server

from agentprof.model import RawSpan
from agentprof.pricing import Pricer
from agentprof_collector.collect.collector import Collector, Hooks, Options
from agentprof_collector.receive.exchange import Refused, Request
from agentprof_collector.stores import Store, open_store

PROTOBUF, JSON = "application/x-protobuf", "application/json"
TRACES, LOGS, METRICS = "/v1/traces", "/v1/logs", "/v1/metrics"
GRPC_METHOD = "/opentelemetry.proto.collector.{0}.v1.{1}Service/Export"
TRACE = b"t" * 16
PRICER = Pricer()
"""One for all: it loads its table once."""


def request(*span_ids: bytes, trace_id: bytes = TRACE, start_ns: int = 5) -> bytes:
    """A request in protobuf with a span for each id."""
    message = ExportTraceServiceRequest()
    spans = message.resource_spans.add().scope_spans.add().spans
    for span_id in span_ids:
        spans.add(trace_id=trace_id, span_id=span_id, name="n", start_time_unix_nano=start_ns)
    return message.SerializeToString()


def json_request(*span_ids: str) -> bytes:
    """The same in JSON."""
    spans = [{"traceId": TRACE.hex(), "spanId": i, "startTimeUnixNano": "5"} for i in span_ids]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


SPAN = request(b"s" * 8)


def agent_request(trace: int, calls: int = 1, *, tokens: int = 100) -> bytes:
    """An export request in protobuf with one whole task: an agent span of one second with so many calls."""
    message = ExportTraceServiceRequest()
    spans = message.resource_spans.add().scope_spans.add().spans
    trace_id = trace.to_bytes(16, "big")
    begin = 1_700_000_000_000_000_000 + trace * 10**9
    root = spans.add(trace_id=trace_id, span_id=b"\1" * 8, name="agent")
    root.start_time_unix_nano, root.end_time_unix_nano = begin, begin + 10**9
    root.attributes.add(key="gen_ai.operation.name").value.string_value = "invoke_agent"
    root.attributes.add(key="gen_ai.agent.name").value.string_value = "agent"
    for number in range(calls):
        call = spans.add(trace_id=trace_id, parent_span_id=b"\1" * 8, name="chat")
        call.span_id = (number + 2).to_bytes(8, "big")
        call.start_time_unix_nano, call.end_time_unix_nano = begin, begin + 10**9
        call.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
        call.attributes.add(key="gen_ai.provider.name").value.string_value = "openai"
        call.attributes.add(key="gen_ai.request.model").value.string_value = "gpt-4o-mini"
        call.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = tokens
        call.attributes.add(key="gen_ai.usage.output_tokens").value.int_value = 10
    return message.SerializeToString()


class Collected:
    """A collector that runs, and what it has taken."""

    def __init__(self, collector: Collector, received: list[RawSpan]) -> None:
        self.collector = collector
        self.store = collector.store
        self.received = received
        """As they came, in order, when they are stored."""
        self.url = collector.otlp_http_url
        self.otlp = Server(_port(collector.otlp_http_url))
        self.pages = Server(_port(collector.url))

    @property
    def span_ids(self) -> list[str]:
        """Of the spans that came, in order."""
        return [span.span_id for span in self.received]

    def kept(self, trace_id: bytes = TRACE) -> list[str]:
        """Ids of the spans that are stored of a trace."""
        return sorted({span.span_id for span in self.store.spans_of([trace_id.hex()])})

    def send(self, body: bytes, path: str = TRACES, method: str = "POST", **headers: str) -> Answered:
        """A request to the receiver, in protobuf unless said otherwise; of a POST."""
        return self.otlp.ask(path, method, body, **{"content_type": PROTOBUF, **headers})

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        """A connection to the receiver that says nothing by itself."""
        with socket.create_connection(("127.0.0.1", self.otlp.port), timeout=30) as connection:
            yield connection

    @contextmanager
    def channel(self, **options: Any) -> Iterator[grpc.Channel]:
        """A channel to the gRPC receiver."""
        assert self.collector.otlp_grpc_target is not None
        # Of its own: channels to one target share a connection.
        given = [("grpc.use_local_subchannel_pool", 1), *((f"grpc.{key}", options[key]) for key in options)]
        with grpc.insecure_channel(self.collector.otlp_grpc_target, options=given) as channel:
            yield channel


@contextmanager
def collecting(
    store: Store | None = None,
    database: Path | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008 (it cannot change)
    **options: Any,
) -> Iterator[Collected]:
    """A collector until the end of the block, with gRPC on a port the system chooses.

    Args:
        store: None: that of `database`, else one in memory.
        database: the file of the store.
        hooks: what else gets to know of what comes.
        options: see `Options`.
    """
    received: list[RawSpan] = []

    def note(spans: Sequence[RawSpan]) -> None:
        received.extend(spans)
        hooks.received(spans)

    collector = Collector(
        open_store(database) if store is None else store,
        database,
        PRICER,
        Options(**{"otlp_grpc_port": 0, **options}),
        hooks._replace(received=note),
    )
    with collector:
        yield Collected(collector, received)


def refusing(status: int = 503, message: str = "full") -> Hooks:
    """Makes a collector refuse whatever comes."""

    def refuse(request: Request) -> None:
        raise Refused(status, message)

    return Hooks(pass_on=refuse)


def refusal(answered: Answered) -> tuple[int, str]:
    """Code and message of a refusal, read in its own type."""
    if answered.headers["content-type"] == JSON:
        said = answered.document
        return said["code"], said["message"]
    assert answered.headers["content-type"] == PROTOBUF
    status = Status.FromString(answered.body)
    return status.code, status.message


def all_that_comes(connection: socket.socket) -> bytes:
    """What the other side says until it closes, or cuts off because it did not read all."""
    got = b""
    try:
        while piece := connection.recv(65_536):
            got += piece
    except ConnectionResetError:
        pass
    return got


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port
