"""Span processors: one that knows tasks, one that gives ended spans to an export worker."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from agentprof import _context, _guard, _runtime, _task, attributes
from agentprof._worker import ExportWorker


class TaskProcessor(SpanProcessor):
    """Writes the task id on spans of others that start inside a task, and keeps spans for summaries."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Runs in the thread of the program: guarded."""
        if _runtime.active() is None:
            return
        try:
            scope = span.instrumentation_scope
            if scope is not None and scope.name == _runtime.SCOPE:
                return
            task = _context.task_in(parent_context)
            if task is not None:
                span.set_attribute(attributes.TASK_ID, task.id)
                _task.remember(span.get_span_context().span_id, task)
        except Exception:
            _guard.failed("a starting span")

    def on_end(self, span: ReadableSpan) -> None:
        """Runs in the thread of the program: guarded."""
        try:
            task = _task.task_of(span)
            if task is not None and _runtime.active() is not None:
                task.keep(span)
        except Exception:
            _guard.failed("an ended span")


class ExportProcessor(SpanProcessor):
    """Gives sampled spans to a worker, if it has one: a provider keeps its processors for ever."""

    def __init__(self) -> None:
        self.worker: ExportWorker | None = None
        self.exit_timeout_s = 2.0

    def on_end(self, span: ReadableSpan) -> None:
        """Runs in the thread of the program: guarded, and never waits."""
        worker = self.worker
        if worker is None:
            return
        try:
            context = span.context
            if context is not None and context.trace_flags.sampled:
                worker.take(span)
        except Exception:
            _guard.failed("queueing a span")

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until everything queued is delivered or on disk; False if the time was not enough."""
        worker = self.worker
        return worker is None or worker.flush(timeout_millis / 1000)

    def close(self, timeout_s: float) -> None:
        """Deliver what is left within the time, and take no more."""
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.close(timeout_s)

    def shutdown(self) -> None:
        """The provider ends."""
        worker = self.worker
        if worker is None:
            return
        self.close(self.exit_timeout_s)
        try:
            worker.destination.shutdown()
        except Exception:
            _guard.failed("closing the exporter")
