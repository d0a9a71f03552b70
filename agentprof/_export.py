"""Where spans go: joins the application's tracer provider, or makes one that sends to a collector."""

from __future__ import annotations

import atexit
import logging
import socket
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from agentprof import _calls, _guard
from agentprof._processors import EXIT_S, ExportProcessor, TaskProcessor
from agentprof._settings import DEFAULT_ENDPOINT

if TYPE_CHECKING:
    from agentprof._settings import Settings

_task_processors: weakref.WeakKeyDictionary[TracerProvider, TaskProcessor] = weakref.WeakKeyDictionary()
_exports: list[ExportProcessor] = []


def provider_for(settings: Settings) -> TracerProvider | None:
    """The provider spans go to, with our processors in it; None where the application's is not the SDK's.

    A provider of the application that already sends its spans somewhere only gets the task processor;
    `endpoint` and `exporter` ask for our own export as well.
    """
    present = (
        settings.tracer_provider if settings.tracer_provider is not None else trace.get_tracer_provider()
    )
    if isinstance(present, trace.ProxyTracerProvider):
        provider = TracerProvider(resource=_resource(settings), shutdown_on_exit=False)
        trace.set_tracer_provider(provider)
    elif isinstance(present, TracerProvider):
        provider = present
    else:
        _guard.noted(
            "foreign provider", "agentprof: the tracer provider is not the SDK's, no spans are recorded"
        )
        return None
    lonely = all(_is_idle(processor) for processor in _processors_of(provider))
    if provider not in _task_processors:
        processor = TaskProcessor()
        provider.add_span_processor(processor)
        _task_processors[provider] = processor
    to_run = settings.run is not None and settings.run.endpoint is not None
    # A run takes the place of the collector that would be looked for, not of one that was named.
    looks = lonely and (not to_run or (settings.endpoint_from_environment and not settings.provisional))
    if settings.exporter is not None or settings.endpoint is not None or looks:
        _add_export(provider, _exporter(settings))
    if settings.run is not None and settings.run.endpoint is not None:
        from agentprof._run.delivery import ToRun

        _add_export(provider, ToRun(settings.run.endpoint))
    return provider


def _add_export(provider: TracerProvider, exporter: SpanExporter) -> None:
    export = ExportProcessor(exporter)
    _exports.append(export)
    provider.add_span_processor(export)


def _processors_of(provider: TracerProvider) -> Sequence[SpanProcessor]:
    """The SDK has no public way to ask; where its insides differ, somebody else counts as present."""
    group = getattr(provider, "_active_span_processor", None)
    found: Sequence[SpanProcessor] = getattr(group, "_span_processors", (SpanProcessor(),))
    return found


def _is_idle(processor: SpanProcessor) -> bool:
    """Whether a processor sends nothing anywhere."""
    return isinstance(processor, TaskProcessor) or (
        isinstance(processor, ExportProcessor) and processor.closed
    )


def _resource(settings: Settings) -> Resource:
    known = {} if settings.run is None else dict(settings.run.resource)
    if settings.service_name:
        known["service.name"] = settings.service_name
    return Resource.create(known)


class _IfListening(SpanExporter):
    """Sends to the collector of this machine, and gives up at once where there is none."""

    def __init__(self, exporter: SpanExporter, host: str, port: int) -> None:
        self._exporter = exporter
        self._address = (host, port)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            socket.create_connection(self._address, timeout=0.5).close()
        except OSError:
            return SpanExportResult.FAILURE
        return self._exporter.export(spans)

    def shutdown(self) -> None:
        self._exporter.shutdown()


def _exporter(settings: Settings) -> SpanExporter:
    if settings.exporter is not None:
        return settings.exporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    # What it logs for every batch that nobody takes, we log once.
    logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").setLevel(logging.CRITICAL)
    if settings.endpoint is not None:
        return OTLPSpanExporter(endpoint=settings.endpoint, timeout=EXIT_S * 5)
    if settings.endpoint_from_environment:
        return OTLPSpanExporter()
    address = urlsplit(DEFAULT_ENDPOINT)
    return _IfListening(
        OTLPSpanExporter(endpoint=DEFAULT_ENDPOINT, timeout=EXIT_S * 5),
        address.hostname or "",
        address.port or 0,
    )


def flush(timeout_s: float = 10.0) -> bool:
    """Send what is queued; False if the time was not enough."""
    results = [export.force_flush(int(timeout_s * 1000)) for export in _exports]
    return all(results)


def lost() -> int:
    """Spans of this process that no receiver took."""
    return sum(export.dropped + export.refused for export in _exports)


def close() -> None:
    """Send what is queued, at most for two seconds, and stop our export."""
    while _exports:
        _exports.pop().close()


@atexit.register
def _at_exit() -> None:
    _calls.end_streams()
    for export in _exports:
        export.shutdown()
