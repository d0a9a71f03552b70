"""A real collector inside a test, and requests to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentprof.pricing import Pricer
from agentprof_collector.collect.collector import Collector, Hooks, Options
from agentprof_collector.stores import open_store


@contextmanager
def collecting(
    database: Path | None = None, options: Options | None = None, hooks: Hooks | None = None
) -> Iterator[Collector]:
    """A collector on free ports, gRPC included, until the end of the block."""
    collector = Collector(
        open_store(database),
        database,
        Pricer(),
        options or Options(otlp_grpc_port=0),
        hooks or Hooks(),
    )
    with collector:
        yield collector


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
