"""An instrumented program, the real OpenTelemetry Collector, and the real Jaeger behind it."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from support.collector_server import CollectorServer
from support.real_programs import Jaeger, OtelCollector, eventually

from agentprof import attributes as a


@pytest.fixture
def agentprof_receiver() -> Iterator[CollectorServer]:
    """Stands where the agentprof collector is in docker-compose.yml."""
    with CollectorServer() as server:
        yield server


@pytest.fixture
def otelcol(jaeger: Jaeger, agentprof_receiver: CollectorServer, tmp_path: Path) -> Iterator[OtelCollector]:
    """The real collector in front of both."""
    base = agentprof_receiver.url.removesuffix("/v1/traces")
    with OtelCollector(tmp_path / "otelcol", jaeger_grpc=jaeger.otlp_grpc, agentprof_http=base) as program:
        assert isinstance(program, OtelCollector)
        yield program


def test_jaeger_shows_the_spans_of_an_instrumented_program(
    jaeger: Jaeger,
    otelcol: OtelCollector,
    agentprof_receiver: CollectorServer,
    run_agent: Callable[[str], dict[str, Any]],
) -> None:
    """Its API returns the whole trace with our attributes, and agentprof's place gets the same spans."""
    summary = run_agent(otelcol.http)
    (trace_id,) = summary["trace_ids"]
    # A task and one in it, three calls, a step, a tool.
    spans = eventually(lambda: found if len(found := jaeger.spans(trace_id)) >= 7 else None, "the trace")
    assert {span["service"] for span in spans} == {"profiled-agent"}
    by_name = {span["attributes"].get(a.TASK_NAME): span for span in spans}
    assert by_name["whole"]["attributes"][a.TASK_ID] == summary["task_id"]
    assert by_name["whole"]["attributes"][a.TASK_OUTCOME] == "success"
    assert by_name["part"]["parentSpanId"] == by_name["whole"]["spanId"]
    calls = sorted(
        (span for span in spans if span["attributes"].get(a.OPERATION) == "chat"),
        key=lambda span: int(span["startTimeUnixNano"]),
    )
    assert len(calls) == 3
    refused, streamed, timed = (call["attributes"] for call in calls)
    assert (refused[a.ATTEMPTS], refused[a.ATTEMPT_STATUS]) == (2, '["429"]')  # as badger keeps lists
    assert streamed[a.PHASE + "generation"] > 0
    assert timed[a.PHASE + "prefill"] == pytest.approx(0.003)
    assert timed[a.PHASE_SOURCE + "prefill"] == "reported"
    agentprof_receiver.wait_for(lambda: len(agentprof_receiver.spans) >= 7)
    assert {span.span_id.hex() for span in agentprof_receiver.spans} == {span["spanId"] for span in spans}


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_exporters_of_the_sdk_deliver(jaeger: Jaeger, otelcol: OtelCollector, protocol: str) -> None:
    """By both protocols, a span of a program that knows nothing of agentprof."""
    exporter: SpanExporter = (
        GrpcExporter(endpoint=otelcol.grpc, insecure=True)
        if protocol == "grpc"
        else HttpExporter(endpoint=f"{otelcol.http}/v1/traces")
    )
    provider = TracerProvider(resource=Resource.create({"service.name": f"sdk-{protocol}"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    span = provider.get_tracer("t").start_span("plain", attributes={a.REQUEST_MODEL: "m", "n": 3})
    span.end()
    provider.shutdown()
    trace_id = f"{span.get_span_context().trace_id:032x}"
    (found,) = eventually(lambda: jaeger.spans(trace_id) or None, "the span")
    assert (found["name"], found["service"]) == ("plain", f"sdk-{protocol}")
    assert found["attributes"] == {a.REQUEST_MODEL: "m", "n": 3}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stop", "kill"])
def test_what_was_acknowledged_survives_a_restart(
    jaeger: Jaeger, tmp_path: Path, how: signal.Signals
) -> None:
    """While agentprof is away spans wait on disk; an end of the collector loses none of them."""
    receiver = CollectorServer().start()
    receiver.stop()  # its port is known now, and nobody is there
    base = receiver.url.removesuffix("/v1/traces")
    program = OtelCollector(tmp_path / "otelcol", jaeger_grpc=jaeger.otlp_grpc, agentprof_http=base)
    try:
        program.start()
        exporter = HttpExporter(endpoint=f"{program.http}/v1/traces")
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("t")
        for number in range(50):
            tracer.start_span(f"span {number}").end()
        provider.shutdown()
        eventually(lambda: "Will retry" in program.log.read_text() or None, "a first try")
        program.stop(how)
        with receiver:
            program.start()
            receiver.wait_for(lambda: set(receiver.names) == {f"span {number}" for number in range(50)})
    finally:
        program.stop()


def test_logs_reach_agentprof_and_metrics_are_dropped(
    otelcol: OtelCollector, agentprof_receiver: CollectorServer
) -> None:
    """So that an SDK that sends all three to one address gets no errors."""
    for path, body in (
        (
            "logs",
            {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"eventName": "e", "timeUnixNano": "1"}]}]}]},
        ),
        ("metrics", {"resourceMetrics": []}),
    ):
        request = urllib.request.Request(
            f"{otelcol.http}/v1/{path}",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
    agentprof_receiver.wait_for(lambda: len(agentprof_receiver.requests) == 1)


def test_the_view_of_traces_is_configured(jaeger: Jaeger) -> None:
    """Jaeger has taken the file of its user interface."""
    assert "jaeger-ui.json" in jaeger.log.read_text()
