"""The export worker: takes ended spans from the program without ever holding it up, prices them, hands them on."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan

from agentprof import _guard
from agentprof._counts import counts
from agentprof._destinations import Destination
from agentprof._forking import importing

if TYPE_CHECKING:
    from agentprof.pricing import Pricer

QUEUE = 16_384
"""Spans that wait to be handed on; beyond it new ones are dropped and counted."""
BATCH = 512
DELAY_S = 1.0
"""How long a span waits for company."""
CALM_S = 0.1
"""How long the first imports wait: they would compete with what the program does right after its first call."""


class ExportWorker:
    """A bounded queue and a thread that empties it into a destination."""

    def __init__(
        self,
        destination: Destination,
        prices: Callable[[bool], Pricer | None] = lambda in_haste: None,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        """Args:
        prices: Gives what prices spans, None if nothing does; called on the worker. Its argument says whether
            the program waits for the worker.
        started: Called when the thread has started, once a process.
        """
        self.destination = destination
        self._prices = prices
        self._started = started
        self._closed = False
        self.begin()

    def begin(self) -> None:
        """Set up as new; also in a forked child, where the parent sends what was queued before."""
        self._queue: deque[ReadableSpan] = deque()
        # Reentrant: garbage collection may end a stream, and so queue a span, anywhere.
        self._wake = threading.Condition(threading.RLock())
        self._asleep = False
        self._in_hand = 0
        self._flushing = 0
        self._closing = False
        self._thread: threading.Thread | None = None
        self.destination.begin()

    @property
    def waiting(self) -> int:
        """Spans in memory."""
        return len(self._queue) + self._in_hand + self.destination.waiting

    def take(self, span: ReadableSpan) -> None:
        """Queue an ended span. Runs in the thread of the program: never waits."""
        if self._closed:
            return
        queue = self._queue
        if len(queue) >= QUEUE:
            counts.add(dropped=1)
            _guard.noted("full queue", "agentprof: the queue of spans is full, new ones are dropped")
            return
        queue.append(span)
        if self._thread is None:
            self._start()
        elif self._asleep or len(queue) == BATCH:
            with self._wake:
                self._wake.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Hand on everything queued; False if it is not out of memory within the time."""
        deadline = time.monotonic() + timeout_s
        self._empty_here()
        with self._wake:
            self._flushing += 1
            try:
                self._wake.notify_all()
                done = self._wake.wait_for(lambda: not self._queue and not self._in_hand, timeout_s)
            finally:
                self._flushing -= 1
        return self.destination.settle(max(deadline - time.monotonic(), 0.0)) and done

    def close(self, timeout_s: float) -> None:
        """Hand on what is left, for so long at most, and take no more."""
        if self._closed:
            return
        self._closing = True
        deadline = time.monotonic() + timeout_s
        self._empty_here()
        with self._wake:
            self._wake.notify_all()
            self._wake.wait_for(lambda: not self._queue and not self._in_hand, timeout_s)
            self._closed = True
            left = len(self._queue)
            self._queue.clear()
            self._wake.notify_all()
        if left:
            counts.add(dropped=left)
            _guard.noted("lost at exit", "agentprof: the time at the end was too short for the last spans")
        self.destination.close(max(deadline - time.monotonic(), 0.0))

    def _start(self) -> None:
        with self._wake:
            if self._thread is not None:
                return
            # Sending must not look like work of the task that happened to be first.
            token = otel_context.attach(Context())
            try:
                self.destination.start()
                thread = threading.Thread(target=self._work, name="agentprof-export", daemon=True)
                thread.start()
            finally:
                otel_context.detach(token)
            self._thread = thread
        self._started()

    def _work(self) -> None:
        otel_context.attach(otel_context.set_value(otel_context._SUPPRESS_INSTRUMENTATION_KEY, True))
        wake = self._wake
        with wake:
            if not (self._flushing or self._closing):
                wake.wait(CALM_S)
        try:
            self._prepare()  # while the first span waits for company
        except Exception:
            _guard.failed("preparing the export")
        while True:
            with wake:
                while not (self._queue or self._closed):
                    # A span queued before this was set is seen here, one queued after it wakes us.
                    self._asleep = True
                    if not self._queue:
                        wake.wait()
                    self._asleep = False
                if len(self._queue) < BATCH and not (self._flushing or self._closing):
                    wake.wait(DELAY_S)
                batch = self._next_batch()
            if batch:
                self._hand_on(batch)
            with wake:
                self._in_hand = 0
                wake.notify_all()
                if self._closed and not self._queue:
                    return

    def _next_batch(self) -> list[ReadableSpan]:
        """With the lock held: only one may take from the queue at a time."""
        batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
        self._in_hand = len(batch)
        return batch

    def _empty_here(self) -> None:
        """Where there is no thread, which cannot be started once the program is ending."""
        while True:
            with self._wake:
                batch = self._next_batch() if self._thread is None else []
            if not batch:
                return
            self._hand_on(batch)
            self._in_hand = 0

    def _hand_on(self, batch: Sequence[ReadableSpan]) -> None:
        try:
            self._prepare()
            self.destination.deliver(self._priced(batch))
        except Exception:
            counts.add(dropped=len(batch))
            _guard.failed("exporting spans")

    def _prepare(self) -> None:
        with importing():
            self.destination.prepare()

    def _priced(self, batch: Sequence[ReadableSpan]) -> Sequence[ReadableSpan]:
        try:
            with importing():
                pricer = self._prices(self._closing)
                if pricer is None:
                    return batch
                from agentprof._priced import priced
        except Exception:
            _guard.failed("loading prices")
            return batch
        found = []
        for span in batch:
            try:
                found.append(priced(span, pricer))
            except Exception:
                _guard.failed("pricing a span")
                found.append(span)
        return found
