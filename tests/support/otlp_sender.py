"""Sends tasks with the OpenTelemetry SDK of Python, one a trace, and prints the ids of the traces as JSON:
{"sent": [...], "acknowledged": [...]}, the latter those of which every span was taken.

    python otlp_sender.py PROTOCOL URL COMPRESSION TASKS

PROTOCOL is http/protobuf or grpc; COMPRESSION is gzip or none. Sends at least so many tasks, and goes on until its
standard input ends. A task has two calls.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from agentprof import attributes as a

PAUSE_S = 0.05
TASKS_A_PAUSE = 10
TIMEOUT_S = 60


def exporter_for(protocol: str, url: str, compression: str) -> SpanExporter:
    """The SDK's exporter of that protocol."""
    if protocol == "grpc":
        import grpc

        packing = grpc.Compression.Gzip if compression == "gzip" else grpc.Compression.NoCompression
        return GrpcExporter(endpoint=url, insecure=True, compression=packing, timeout=TIMEOUT_S)
    return HttpExporter(endpoint=url, compression=Compression(compression), timeout=TIMEOUT_S)


class Noting(SpanExporter):
    """An exporter, which counts how many spans of each trace were taken."""

    def __init__(self, exporter: SpanExporter) -> None:
        self.taken: Counter[str] = Counter()
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.taken.update(f"{span.context.trace_id:032x}" for span in spans if span.context is not None)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def main(protocol: str, url: str, compression: str, tasks: str) -> None:
    """Send."""
    exporter = Noting(exporter_for(protocol, url, compression))
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    provider = TracerProvider(resource=Resource.create({"service.name": f"python {protocol}"}))
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter,
            max_queue_size=100_000,
            max_export_batch_size=200,
            schedule_delay_millis=100,
        )
    )
    tracer = provider.get_tracer("python")
    ids = []
    while len(ids) < int(tasks) or not ended.is_set():
        for _ in range(TASKS_A_PAUSE):
            with tracer.start_as_current_span(
                "invoke_agent", attributes={a.OPERATION: "invoke_agent"}
            ) as root:
                ids.append(f"{root.get_span_context().trace_id:032x}")
                for _ in range(2):
                    tracer.start_span(
                        "chat m",
                        kind=trace.SpanKind.CLIENT,
                        attributes={
                            a.OPERATION: "chat",
                            a.REQUEST_MODEL: "m",
                            a.INPUT_TOKENS: 10,
                            a.OUTPUT_TOKENS: 3,
                        },
                    ).end()
        ended.wait(PAUSE_S)
    provider.shutdown()
    print(json.dumps({"sent": ids, "acknowledged": [one for one in ids if exporter.taken[one] == 3]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
