"""Where spans go: joins the application's tracer provider, or makes one that sends to a collector."""

from __future__ import annotations

import atexit
import logging
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from agentprof import _calls, _guard, _otlp, _runtime, _settings, _spool
from agentprof._counts import Stats, counts
from agentprof._courier import Courier
from agentprof._destinations import Destination, ToCollector, ToExporter
from agentprof._forking import at_end_of_worker, renew_in_child
from agentprof._otlp import Endpoint
from agentprof._prices import Prices
from agentprof._processors import ExportProcessor, TaskProcessor
from agentprof._worker import ExportWorker

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
        # Not made the global one: the application may still want to set its own, which works once only.
        provider = TracerProvider(resource=_resource(settings), shutdown_on_exit=False)
    elif isinstance(present, TracerProvider):
        provider = present
    else:
        _guard.noted(
            "foreign provider", "agentprof: the tracer provider is not the SDK's, no spans are recorded"
        )
        return None
    lonely = _is_lonely(provider)
    _add_task_processor(provider)
    to_run = settings.run is not None and settings.run.endpoint is not None
    # A run takes the place of the collector that would be looked for, not of one that was named.
    looks = lonely and (not to_run or (settings.endpoint_from_environment and not settings.provisional))
    if settings.exporter is not None or settings.endpoint is not None or looks:
        _add_export(provider, _destination(settings), settings)
    if settings.run is not None and settings.run.endpoint is not None:
        # Nothing of a run is kept on disk: its receiver ends with it.
        run = Courier(Endpoint(settings.run.endpoint, use_proxy=False), None, quiet=True)
        _add_export(provider, ToCollector(run), settings)
    return provider


def join(provider: object, settings: Settings) -> bool:
    """Go over to the provider the application has set; False if it is not the SDK's.

    Our export goes along if it was asked for, belongs to a run, or nobody else sends these spans.
    """
    if not isinstance(provider, TracerProvider):
        return False
    lonely = _is_lonely(provider)
    _add_task_processor(provider)
    asked = settings.exporter is not None or settings.endpoint is not None
    to_run = settings.run is not None and settings.run.endpoint is not None
    if asked or lonely or to_run:
        for export in _exports:
            if export not in _processors_of(provider):
                provider.add_span_processor(export)
    return True


def _add_task_processor(provider: TracerProvider) -> None:
    if provider not in _task_processors:
        processor = TaskProcessor()
        provider.add_span_processor(processor)
        _task_processors[provider] = processor


def _is_lonely(provider: TracerProvider) -> bool:
    return all(_is_idle(processor) for processor in _processors_of(provider))


def _add_export(provider: TracerProvider, destination: Destination, settings: Settings) -> None:
    """Through a processor of ours that has become idle, if there is one: none can be taken out again."""
    for processor in _processors_of(provider):
        if isinstance(processor, ExportProcessor) and processor.worker is None:
            export = processor
            break
    else:
        export = ExportProcessor()
        provider.add_span_processor(export)
    export.exit_timeout_s = settings.exit_timeout_s
    export.worker = ExportWorker(
        destination, Prices(settings.config), started=lambda: at_end_of_worker(_at_exit)
    )
    _exports.append(export)


def _processors_of(provider: TracerProvider) -> Sequence[SpanProcessor]:
    """The SDK has no public way to ask; where its insides differ, somebody else counts as present."""
    group = getattr(provider, "_active_span_processor", None)
    found: Sequence[SpanProcessor] = getattr(group, "_span_processors", (SpanProcessor(),))
    return found


def _is_idle(processor: SpanProcessor) -> bool:
    """Whether a processor sends nothing anywhere, or only the rest of what it has."""
    return isinstance(processor, TaskProcessor) or (
        isinstance(processor, ExportProcessor) and (processor.worker is None or processor not in _exports)
    )


def _resource(settings: Settings) -> Resource:
    known = {} if settings.run is None else dict(settings.run.resource)
    if settings.service_name:
        known["service.name"] = settings.service_name
    return Resource.create(known)


def _destination(settings: Settings) -> Destination:
    if settings.exporter is not None:
        return ToExporter(settings.exporter)
    if settings.endpoint is None and _otlp.wants_grpc():
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

        _silence("opentelemetry.exporter.otlp.proto.grpc.exporter")
        return ToExporter(Grpc())
    if _otlp.needs_the_sdk():
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

        _silence("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        return ToExporter(Http(endpoint=settings.endpoint))
    endpoint = _otlp.endpoint(settings.endpoint, _settings.DEFAULT_ENDPOINT)
    spool = None
    if settings.spool is not None:
        spool = _spool.Spool(settings.spool, _spool.destination(endpoint.url, endpoint.headers))
    # Nobody asked for the collector of this machine: that it is not there is no news while nothing is lost.
    quiet = settings.endpoint is None and not settings.endpoint_from_environment and spool is not None
    return ToCollector(Courier(endpoint, spool, quiet=quiet))


def _silence(logger: str) -> None:
    """What an exporter logs for every batch that nobody takes, we log once."""
    logging.getLogger(logger).setLevel(logging.CRITICAL)


FLUSH_S = 10.0


def _workers() -> list[ExportWorker]:
    """Those that are there; another thread may be switching off."""
    return [worker for export in [*_exports] if (worker := export.worker) is not None]


def flush(timeout_s: float | None = None) -> bool:
    """Deliver what is queued, or put it on disk; False if the time (`FLUSH_S` if none is said) was not enough."""
    deadline = time.monotonic() + (FLUSH_S if timeout_s is None else timeout_s)
    done = [worker.flush(max(deadline - time.monotonic(), 0.0)) for worker in _workers()]
    delivered = all(done)
    runtime = _runtime.active()
    if delivered and runtime is not None and runtime.settings.run is not None:
        from agentprof._run import presence

        presence.handed_over()
    return delivered


def stats() -> Stats:
    """What became of the spans of this process so far."""
    return Stats(
        waiting=sum(worker.waiting for worker in _workers()),
        sent=counts.sent,
        spooled=counts.spooled,
        dropped=counts.dropped,
        refused=counts.refused,
        delivered=counts.delivered,
        discarded=counts.discarded,
        failures=_guard.counts(),
    )


def lost() -> int:
    """Spans of this process that neither a receiver nor the disk took."""
    return counts.dropped + counts.refused


def taken() -> list[ExportProcessor]:
    """Our exports, which are whoever's took them from now on: to be closed."""
    exports = [*_exports]
    _exports.clear()
    return exports


def close(exports: Sequence[ExportProcessor] | None = None) -> None:
    """Deliver what is queued as far as the time at an exit allows, and stop our export.

    Args:
        exports: As `taken` gave them; None: take them now.
    """
    _close(taken() if exports is None else exports, shut_down=False)


def _close(exports: Sequence[ExportProcessor], *, shut_down: bool) -> None:
    if not exports:
        return
    deadline = time.monotonic() + max(export.exit_timeout_s for export in exports)
    for export in reversed(exports):
        worker = export.worker
        export.close(max(deadline - time.monotonic(), 0.0))
        if shut_down and worker is not None:
            try:
                worker.destination.shutdown()
            except Exception:
                _guard.failed("closing the exporter")


_over: list[Callable[[], None]] = []


def when_over(function: Callable[[], None]) -> None:
    """Have a function called when this process ends, after its spans have left; in forked children too."""
    _over.append(function)


@atexit.register
def _at_exit() -> None:
    _calls.end_streams()
    _close(taken(), shut_down=True)
    for function in _over:
        function()


def _begin_in_child() -> None:
    for export in _exports:
        if export.worker is not None:
            export.worker.begin()


renew_in_child(_begin_in_child)
