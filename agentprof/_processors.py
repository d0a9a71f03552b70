"""Span processors: one that knows tasks, one that sends spans out without ever blocking the program."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from agentprof import _context, _guard, _runtime, _task, attributes

QUEUE = 8192
"""Spans that wait to be sent; beyond it new ones are dropped and counted."""
BATCH = 512
DELAY_S = 1.0
"""How long a span waits for company."""
EXIT_S = 2.0
"""How long the end of the program may wait for the last spans."""


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
        except Exception:
            _guard.failed("a starting span")

    def on_end(self, span: ReadableSpan) -> None:
        """Runs in the thread of the program: guarded."""
        if _runtime.active() is None:
            return
        try:
            said = span.attributes
            task_id = said.get(attributes.TASK_ID) if said is not None else None
            if task_id is not None and (task := _task.by_id(task_id)) is not None:
                task.keep(span)
        except Exception:
            _guard.failed("an ended span")


class ExportProcessor(SpanProcessor):
    """Queues ended spans and sends them in batches from a thread of its own."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.dropped = 0
        """Spans lost because the queue was full."""
        self.refused = 0
        """Spans the receiver did not take."""
        self._queue: deque[ReadableSpan] = deque()
        self._closed = False
        self._prepare()
        processor = weakref.ref(self)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: _restart(processor))

    def _prepare(self) -> None:
        self._wake = threading.Condition(threading.Lock())
        self._in_flight = 0
        self._flushing = 0
        self._thread: threading.Thread | None = None

    def restart_after_fork(self) -> None:
        """The parent sends what was queued before; the child begins anew."""
        self._queue.clear()
        self._prepare()

    def on_end(self, span: ReadableSpan) -> None:
        """Runs in the thread of the program: guarded, and never waits."""
        try:
            context = span.context
            if self._closed or context is None or not context.trace_flags.sampled:
                return
            queue = self._queue
            if len(queue) >= QUEUE:
                self.dropped += 1
                _guard.noted("full queue", "agentprof: the queue of spans is full, new ones are dropped")
                return
            queue.append(span)
            if self._thread is None:
                self._start()
            elif len(queue) == BATCH:
                with self._wake:
                    self._wake.notify_all()
        except Exception:
            _guard.failed("queueing a span")

    def _start(self) -> None:
        with self._wake:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="agentprof-export", daemon=True)
                # Sending must not look like work of the task that happened to be first.
                token = otel_context.attach(Context())
                try:
                    self._thread.start()
                finally:
                    otel_context.detach(token)

    def _work(self) -> None:
        otel_context.attach(otel_context.set_value(otel_context._SUPPRESS_INSTRUMENTATION_KEY, True))
        wake = self._wake
        while wake is self._wake:
            with wake:
                if len(self._queue) < BATCH and not (self._flushing and self._queue) and not self._closed:
                    wake.wait(DELAY_S)
                batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
                self._in_flight = len(batch)
            if batch:
                self._send(batch)
            with wake:
                self._in_flight = 0
                wake.notify_all()
                if self._closed and not self._queue:
                    return

    def _send(self, batch: list[ReadableSpan]) -> None:
        try:
            result = self._exporter.export(batch)
        except Exception:
            self.refused += len(batch)
            _guard.failed("sending spans")
            return
        if result is not SpanExportResult.SUCCESS:
            self.refused += len(batch)
            _guard.noted("refused spans", "agentprof: spans could not be sent; is the collector running?")

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until everything queued is sent; False if the time was not enough."""
        with self._wake:
            if self._thread is None:
                return True
            self._flushing += 1
            self._wake.notify_all()
            done = self._wake.wait_for(lambda: not self._queue and not self._in_flight, timeout_millis / 1000)
            self._flushing -= 1
        return done

    @property
    def closed(self) -> bool:
        """Whether it takes no more spans."""
        return self._closed

    def close(self) -> None:
        """Send what is left, for at most two seconds, and take no more; the exporter stays usable."""
        if self._closed:
            return
        self.force_flush(int(EXIT_S * 1000))
        with self._wake:
            self._closed = True
            self._wake.notify_all()

    def shutdown(self) -> None:
        """Close, and shut the exporter down even if it still tries to send."""
        if self._closed:
            return
        self.close()
        try:
            self._exporter.shutdown()
        except Exception:
            _guard.failed("closing the exporter")


def _restart(reference: weakref.ref[ExportProcessor]) -> None:
    processor = reference()
    if processor is not None:
        processor.restart_after_fork()
