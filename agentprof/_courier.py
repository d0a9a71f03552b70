"""Brings encoded requests to a collector, from a thread of its own; what it does not take waits on disk.

At most one request is in memory: the one being sent. While that takes long, or nothing answers, further ones go
to the spool at once. After a failure nobody is asked again for 1 s, then 2 s, up to 30 s; once a request is
taken the spool follows, oldest first.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from agentprof import _guard
from agentprof._counts import counts
from agentprof._forking import importing
from agentprof._otlp import Answer, Endpoint
from agentprof._spool import Spool

if TYPE_CHECKING:
    from agentprof._otlp_http import Sender

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
BUSY_S = 0.2
"""A receiver that has not answered after this is slow: what comes next goes to disk."""
LOOK_EVERY_S = 30.0
"""How often to look for files that other processes have left."""


class Request(NamedTuple):
    """An encoded OTLP request and the number of its spans."""

    data: bytes
    spans: int


class Courier:
    """Delivers the requests of this process, and files of the spool."""

    def __init__(self, endpoint: Endpoint, spool: Spool | None, *, quiet: bool = False) -> None:
        """Args:
        quiet: Say nothing where no receiver answers.
        """
        self._endpoint = endpoint
        self._spool = spool
        self._quiet = quiet
        self.begin()

    def begin(self) -> None:
        """Set up as new; also in a forked child, where the parent goes on with what it had."""
        # Reentrant: garbage collection may end a stream, and so start a worker, anywhere.
        self._wake = threading.Condition(threading.RLock())
        self._sender: Sender | None = None
        self._request: Request | None = None
        self._sending = False
        self._began = 0.0
        """When the present sending began."""
        self._took_s = 0.0
        """How long the last answer took."""
        self._answers = True
        """Whether the receiver took or refused the last request; at first it is worth a try."""
        self._pause_s = 0.0
        self._next_try = 0.0
        self._look_at = 0.0
        """When to look into the spool again; 0: now."""
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Spans in memory."""
        request = self._request
        return request.spans if request is not None else 0

    def start(self) -> None:
        """Start the thread while the program still runs: at its end none can be started."""
        with self._wake:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._work, name="agentprof-send", daemon=True)
                token = otel_context.attach(Context())
                try:
                    thread.start()
                finally:
                    otel_context.detach(token)
                self._thread = thread

    def offer(self, request: Request) -> None:
        """Take over a request. Waits only where neither receiver nor disk takes anything, or until `close()`."""
        with self._wake:
            if self._is_free_soon():
                self._give(request)
                return
        if self._keep(request):
            counts.add(spooled=request.spans)
            return
        with self._wake:
            while self._thread is not None and not self._closed:
                if self._request is None:
                    self._give(request)
                    return
                self._wake.wait()
        counts.add(dropped=request.spans)

    def settle(self, timeout_s: float) -> bool:
        """Wait until nothing is in memory, and the spool is delivered if the receiver answers.

        Returns:
            Whether nothing is left in memory: all is taken, on disk, refused or dropped.
        """
        deadline = time.monotonic() + timeout_s
        with self._wake:
            self._wake.notify_all()
            while not self._is_settled():
                now = time.monotonic()
                until = min(deadline, self._began + timeout_s) if self._sending else deadline
                # What is slower than the patience of who waits, or not asked before it ends, is not waited for.
                if now >= until or self._took_s >= timeout_s:
                    break
                if not (self._sending or self._answers) and self._next_try > deadline:
                    break
                self._wake.wait(until - now)
            return self._request is None

    def close(self, timeout_s: float) -> None:
        """Settle, then put on disk what is still in memory and end the thread."""
        deadline = time.monotonic() + timeout_s
        self.settle(timeout_s)
        with self._wake:
            if self._closed:
                return
            # A file on its way just now would come twice if it were cut off.
            self._wake.wait_for(
                lambda: not self._sending or self._request is not None,
                max(min(deadline - time.monotonic(), BUSY_S), 0.0),
            )
            self._closed = True
            left, self._request = self._request, None
            self._wake.notify_all()
        if left is not None and self._keep(left):
            counts.add(spooled=left.spans)
        elif left is not None:
            counts.add(dropped=left.spans)
            _guard.noted("lost at exit", "agentprof: the last spans could neither be sent nor kept on disk")
        if self._sender is not None:
            self._sender.abort()
        if self._thread is not None:
            self._thread.join(0.1)

    # --- with the lock held ----------------------------------------------------------------------
    def _is_free(self) -> bool:
        return self._request is None and not self._sending

    def _is_free_soon(self) -> bool:
        """Whether the thread takes a request; a receiver that is merely busy is given a moment."""
        until = (self._began if self._sending else time.monotonic()) + BUSY_S
        while self._thread is not None and not self._closed and self._answers:
            if self._is_free():
                return True
            left_s = until - time.monotonic()
            if left_s <= 0:
                break
            self._wake.wait(left_s)
        return False

    def _give(self, request: Request) -> None:
        self._request = request
        self._wake.notify_all()

    def _has_files(self) -> bool:
        return self._spool is not None and time.monotonic() >= self._look_at

    def _is_settled(self) -> bool:
        if self._closed or self._thread is None:
            return True
        return self._request is None and not (self._answers and (self._sending or self._has_files()))

    def _idle_s(self) -> float | None:
        """How long there is nothing to do; 0: there is something now, None: until somebody says so."""
        now = time.monotonic()
        if self._request is not None:
            return max(self._next_try - now, 0.0)
        if self._spool is None:
            return None
        return max(self._next_try - now, self._look_at - now, 0.0)

    # --- the thread ------------------------------------------------------------------------------
    def _work(self) -> None:
        otel_context.attach(otel_context.set_value(otel_context._SUPPRESS_INSTRUMENTATION_KEY, True))
        wake = self._wake
        with importing():
            import encodings.idna  # noqa: F401 (what a look-up of a host name imports)

            from agentprof._otlp_http import Sender

        sender = self._sender = Sender(self._endpoint)
        while True:
            with wake:
                while not self._closed and (idle_s := self._idle_s()) != 0:
                    wake.wait(idle_s)
                if self._closed:
                    break
                request = self._request
            try:
                if request is not None:
                    self._send_new(request, sender)
                else:
                    self._send_file(sender)
            except Exception:
                _guard.failed("sending spans")
                self._failed(Answer("later"))
            with wake:
                self._sending = False
                wake.notify_all()
        sender.close()

    def _send(self, data: bytes, sender: Sender) -> Answer:
        with self._wake:
            self._sending, self._began = True, time.monotonic()
        answer = sender.send(data)
        self._took_s = time.monotonic() - self._began
        return answer

    def _send_new(self, request: Request, sender: Sender) -> None:
        answer = self._send(request.data, sender)
        if answer.kind == "later":
            self._failed(answer)
        with self._wake:
            if self._request is not request:
                return  # at the end of the program somebody else has put it on disk meanwhile
            if answer.kind == "taken":
                counts.add(sent=request.spans - answer.rejected_spans, refused=answer.rejected_spans)
            elif answer.kind == "refused":
                counts.add(refused=request.spans)
            elif self._keep(request):
                counts.add(spooled=request.spans)
            else:
                return
            self._request = None
        if answer.kind != "later":
            self._answered(answer)

    def _send_file(self, sender: Sender) -> None:
        claim = self._spool.claim_oldest() if self._spool is not None else None
        if claim is None or self._spool is None:
            self._look_at = time.monotonic() + LOOK_EVERY_S
            self._answers = True  # nothing is left to ask with: the next request is worth a try
            return
        request = claim.read()
        if request is None:
            self._spool.remove(claim)
            counts.add(discarded=claim.spans)
            return
        answer = self._send(request, sender)
        if answer.kind == "later":
            self._spool.release(claim)
            self._failed(answer)
            return
        self._spool.remove(claim)
        if answer.kind == "taken":
            counts.add(delivered=claim.spans - answer.rejected_spans, discarded=answer.rejected_spans)
        else:
            counts.add(discarded=claim.spans)
        self._answered(answer)

    def _answered(self, answer: Answer) -> None:
        if not self._answers:
            self._look_at = 0.0
        self._answers, self._pause_s, self._next_try = True, 0.0, 0.0
        if answer.kind == "refused":
            _guard.noted("refused spans", f"agentprof: the collector does not take spans ({answer.reason})")
        elif answer.rejected_spans:
            _guard.noted("refused spans", "agentprof: the collector has not kept all spans")

    def _failed(self, answer: Answer) -> None:
        self._answers = False
        self._pause_s = min(max(self._pause_s * 2, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        self._next_try = time.monotonic() + max(self._pause_s, answer.retry_after_s)
        self._look_at = 0.0  # the next try is with the oldest
        if not self._closed and not self._quiet:
            where = "on disk" if self._spool is not None else "in memory"
            reason = f" ({answer.reason})" if answer.reason else ""
            _guard.noted(
                "no collector",
                f"agentprof: the collector takes no spans{reason}; they wait {where}, up to a bound",
            )

    def _keep(self, request: Request) -> bool:
        if self._spool is None or not self._spool.put(request.data, request.spans):
            return False
        self._look_at = 0.0
        return True
