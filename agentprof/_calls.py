"""One model call from its first moment to its span: attempts, answer, times. Only place that makes call spans.

A seam says what happens (`attempt`, `attempt_failed`, `answered`, ...); nothing here knows an SDK.
"""

from __future__ import annotations

import os
from contextvars import ContextVar, Token
from typing import Any, Final

from opentelemetry import context as otel_context
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.util.types import AttributeValue

from agentprof import _context, _guard, _streams, attributes
from agentprof._arrivals import Arrivals
from agentprof._asked import say_request, say_tool_calls
from agentprof._call_span import (
    FailedAttempt,
    first_said,
    say_answer,
    say_connecting,
    say_failed_attempts,
    say_reported_times,
    say_times,
    set_on,
)
from agentprof._clock import stamp_ns
from agentprof._connecting import Connecting
from agentprof._context import Attachment
from agentprof._failures import failure_kind
from agentprof._headers import pairs, say_headers
from agentprof._runtime import Runtime
from agentprof.dialects import Answer, Dialect
from agentprof.engines import LLAMA_CPP

_NS: Final = 1e9
_current: ContextVar[Call | None] = ContextVar("agentprof_call", default=None)
current_call: Final = _current.get
"""The call that is being made here, for hooks below it."""
_reading: set[Call] = set()
"""Calls whose answer the program has not read to its end."""


def end_streams() -> None:
    """End the calls whose streams the program leaves behind when it exits."""
    for call in list(_reading):
        call.stream_left()


class Call:
    """A model call in progress. Its methods may raise: seams guard them."""

    __slots__ = (
        "_anchor",
        "_answer",
        "_answered",
        "_arrivals",
        "_attachment",
        "_attempt_began",
        "_began",
        "_dialect",
        "_failed",
        "_failed_at",
        "_first_byte",
        "_headers_at",
        "_model_of_path",
        "_pid",
        "_propagate",
        "_refused",
        "_span",
        "_stream",
        "_task",
        "_token",
        "asks_for_usage",
        "attempts",
        "body",
        "connecting",
        "headers",
        "hides_usage",
        "is_open",
        "owner",
        "status_code",
    )

    def __init__(
        self,
        runtime: Runtime,
        dialect: Dialect,
        model: str | None,
        stream: bool,
        host: str,
        port: int | None,
        provider: str | None,
    ) -> None:
        self._began = self._attempt_began = stamp_ns()
        self._dialect = dialect
        self._stream = stream
        self._model_of_path = model if dialect.path_tells else None
        current = otel_context.get_current()
        self._task = task = _context.task_in(current)
        self._anchor = task.anchor_ns if task is not None else runtime.anchor_ns
        self._pid = os.getpid()
        self._propagate = runtime.settings.propagates_to(host)
        self._answer = Answer()
        if runtime.settings.estimate_usage:
            from agentprof import _estimate

            self._dialect = _estimate.counting(dialect, self._answer)
        self._arrivals: Arrivals | None = None
        self.is_open = True
        self._answered = False
        self._failed_at = 0
        self._failed: list[FailedAttempt] = []
        self._first_byte: int | None = None
        self._headers_at: int | None = None
        """Of the answer, where its body was still to come."""
        self._refused: str | None = None
        self.attempts = 0
        self.body: Any = None
        """The serialised request, where it is at hand as bytes."""
        self.asks_for_usage = stream and runtime.settings.stream_usage and dialect.usage_if_asked
        """Whether the request should ask for the usage of its stream."""
        self.hides_usage = False
        """Whether the usage chunk of the stream was asked for by us and not by the program."""
        self.connecting: Connecting | None = None
        """What the last attempt took to get a connection."""
        self.owner: Any = None
        """The HTTP client that makes the call, where no SDK does."""
        self.status_code: int | None = None
        self.headers: Any = None
        """Of the last answer, as pairs of bytes, where what they say is to be kept."""
        said = first_said(dialect.operation, host, port, provider, model, stream)
        if task is not None:
            said[attributes.TASK_ID] = task.id
        self._span = runtime.tracer.start_span(
            f"{dialect.operation} {model}" if model else dialect.operation,
            context=_context.span_context(current),
            kind=SpanKind.CLIENT,
            attributes=said,
            start_time=self._began + self._anchor,
        )
        if task is not None and self._span.is_recording():
            task.note_open(self._span)
        self._attachment = Attachment(_context.with_call(self._span, current), current)
        self._token: Token[Call | None] = _current.set(self)

    def leave(self) -> None:
        """The SDK method is about to return or raise: the call is no longer current."""
        try:
            _current.reset(self._token)
        except ValueError:  # a coroutine may be closed in another context than it was begun in
            if _current.get() is self:
                _current.set(None)
        self._attachment.detach()

    # --- attempts --------------------------------------------------------------------------------
    def attempt(self) -> str | None:
        """An HTTP exchange begins; gives the `traceparent` it should carry, if any."""
        self.attempts += 1
        self.connecting = None
        if not self._propagate:
            return None
        context = self._span.get_span_context()
        if not context.is_valid:
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"

    def connected(self, part: str, ns: int) -> None:
        """A part of getting a connection is over: `pool`, `tls` or `tcp`, which is the rest."""
        if self.connecting is None:
            self.connecting = Connecting()
        self.connecting.add(part, ns)

    def attempt_failed(self, status: str) -> None:
        """The exchange gave no answer and will be repeated after a pause that begins now."""
        self._failed_at = stamp_ns()
        self._attempt_over(self._failed_at, status)

    def pause_over(self) -> None:
        """The pause after a failed attempt is over."""
        self._attempt_began = stamp_ns()
        self._failed[-1].pause_s = (self._attempt_began - self._failed_at) / _NS

    def _attempt_over(self, now: int, status: str) -> None:
        self._failed.append(FailedAttempt((now - self._attempt_began) / _NS, status))

    def exchange(self) -> str | None:
        """An HTTP exchange of a client without an SDK begins; one before it led to it (redirect, login)."""
        if self.attempts:
            self.repeated(self._refused or "repeated", stamp_ns())
        return self.attempt()

    def repeated(self, status: str, failed_at: int) -> None:
        """The exchange failed at a reading of `stamp_ns()`, and the pause after it is over."""
        self._failed_at = failed_at
        self._attempt_over(failed_at, status)
        self.pause_over()
        self._answered = False
        self._first_byte = self._headers_at = self._refused = self.headers = self.status_code = None

    # --- answers ---------------------------------------------------------------------------------
    def headers_arrived(self, status_code: int) -> bool:
        """The headers of an answer are there; True if it is an answer of the model, not a refusal."""
        self._first_byte = self._headers_at = stamp_ns()
        self._answered = True
        self.status_code = status_code
        if status_code < 300:
            return True
        self._refused = str(status_code)
        return False

    @property
    def reading(self) -> bool:
        """Whether the body of the answer is observed."""
        return self._arrivals is not None

    def arrivals(self, decoder: Any | None) -> Arrivals:
        """What will arrive of the body, for an observer that is not one of `_streams`."""
        self._arrivals = Arrivals(self._dialect, self._answer, decoder, self._stream)
        _reading.add(self)
        return self._arrivals

    def answered(self, status_code: int, body: bytes) -> None:
        """A whole answer is there."""
        self._answered = True
        self.status_code = status_code
        self._dialect.read_body(body, self._answer)

    def answered_open(self, response: Any) -> None:
        """The headers of an answer are there; its body is still to be read by the program."""
        self._answered = True
        if self._first_byte is None:
            self._headers_at = stamp_ns()
        self.status_code = response.status_code
        self._arrivals = _streams.observe(response, self, self._dialect, self._answer, self._stream)
        if self._arrivals is not None:
            _reading.add(self)

    def result_of_batch(self, status_code: int, body: bytes) -> None:
        """The answer of a call that was made elsewhere and earlier: of its time nothing is known."""
        self.answered(status_code, body)
        self._answer.service_tier = "batch"
        self._finish(self._began, error_type=str(status_code) if status_code >= 300 else None)

    def returned(self) -> None:
        """The SDK method returned."""
        if self._arrivals is None:
            self._finish(stamp_ns())

    def failed(self, error: BaseException, status: str) -> None:
        """The SDK method raised.

        Args:
            status: HTTP status or kind of failure of the last attempt, if that is what failed.
        """
        now = stamp_ns()
        if self.attempts and not self._answered:
            self._attempt_over(now, status)
        self._finish(now, error_type=type(error).__qualname__)

    # --- streams ---------------------------------------------------------------------------------
    def stream_over(self, now: int) -> None:
        """The body came to its end."""
        arrivals = self._arrivals
        if not self.is_open or arrivals is None:
            return
        try:
            arrivals.complete()
        except Exception:
            _guard.failed("reading the end of a body")
        try:
            whole = self._answer.is_complete
            end = now if arrivals.last_chunk is None or not whole else arrivals.last_chunk
            self._finish(end, stream_end="complete" if whole else "truncated")
        except Exception:
            _guard.failed("the end of a stream")

    def stream_left(self) -> None:
        """The body was closed or dropped, perhaps before its end."""
        arrivals = self._arrivals
        if not self.is_open or arrivals is None:
            return
        try:
            end = arrivals.last_chunk if arrivals.last_chunk is not None else stamp_ns()
            # SDKs close a stream at its closing mark, before the end of the body.
            cut = "truncated" if arrivals.closing_mark else "abandoned"
            stream_end = "complete" if self._answer.is_complete else cut
            self._finish(end, stream_end=stream_end, status="cancelled")
        except Exception:
            _guard.failed("a stream that was left")

    def stream_failed(self, error: BaseException, now: int) -> None:
        """Reading the body raised."""
        if not self.is_open:
            return
        try:
            status = failure_kind(error)
            stream_end = "cancelled" if status == "cancelled" else "error"
            self._finish(now, error_type=type(error).__qualname__, stream_end=stream_end, status=status)
        except Exception:
            _guard.failed("a broken stream")

    # --- the span --------------------------------------------------------------------------------
    def _finish(
        self, end: int, *, error_type: str | None = None, stream_end: str | None = None, status: str = ""
    ) -> None:
        if not self.is_open:
            return
        self.is_open = False
        _reading.discard(self)
        if os.getpid() != self._pid:
            return
        answer, arrivals = self._answer, self._arrivals
        if answer.error_type is not None and error_type is None:
            error_type = answer.error_type
        said: dict[str, AttributeValue] = {}
        if arrivals is not None and (arrivals.is_event_stream or self._stream):
            if answer.error_type is not None and stream_end != "cancelled":
                stream_end = "error"
            if stream_end is not None:
                said[attributes.STREAM_END] = stream_end
            fruitless = arrivals.first_token is None and stream_end in ("error", "cancelled", "abandoned")
        else:
            fruitless = arrivals is not None and stream_end in ("error", "cancelled")
        if fruitless:
            # Nothing came of this exchange: it failed like one without an answer.
            self._attempt_over(end, status or str(self.status_code))
        if self._refused is not None:
            self._attempt_over(end, self._refused)
            error_type = error_type or self._refused
        try:
            self._describe(said, end)
        except Exception:
            _guard.failed("what a call says")
        try:
            if error_type is not None:
                said[attributes.ERROR_TYPE] = error_type
                self._span.set_status(StatusCode.ERROR)
            set_on(self._span, said)
            if self._task is not None:
                self._task.count_call(answer.usage, answer.cost_usd)
        finally:
            if self._task is not None:
                self._task.note_ended(self._span)
            self._span.end(end + self._anchor)

    def _describe(self, said: dict[str, AttributeValue], end: int) -> None:
        """Add what is known of the request, its answer and their times."""
        answer, arrivals = self._answer, self._arrivals
        if self.headers is not None:
            refused = self._refused is not None or not self._answered
            if self._dialect.reads_headers and not refused:
                self._dialect.read_headers(pairs(self.headers), answer)
            until = self._until_headers() if arrivals is not None and arrivals.is_event_stream else None
            say_headers(said, self.headers, answer, refused, until)
        if answer.engine == LLAMA_CPP and arrivals is not None and arrivals.first_token is not None:
            self._note_queue(arrivals.first_token)
        say_answer(said, answer)
        key = self._task.key if self._task is not None else None
        if answer.tool_ids:
            say_tool_calls(said, answer, key)
        if arrivals is not None:
            say_times(said, arrivals, answer, self._began, end)
        if self._first_byte is not None:
            said[attributes.FIRST_BYTE] = (self._first_byte - self._began) / _NS
        if self.connecting is not None:
            say_connecting(said, self.connecting)
        say_reported_times(said, answer)
        said[attributes.ATTEMPTS] = self.attempts
        if self._failed:
            say_failed_attempts(said, self._failed)
        body = self.body if type(self.body) is bytes else None
        if body is not None:
            self.body = None
            try:
                say_request(said, body, self._dialect, key, self._model_of_path)
            except Exception:
                _guard.failed("reading a request")
        if answer.received is not None and answer.usage is None and self._answered and self._refused is None:
            from agentprof import _estimate

            _estimate.say_estimate(said, answer, self._dialect, body)

    def _until_headers(self) -> int | None:
        """From the last request to its headers, without what it took to get a connection."""
        if self._headers_at is None:
            return None
        connecting_ns = self.connecting.ns if self.connecting is not None else 0
        return self._headers_at - self._attempt_began - connecting_ns

    def _note_queue(self, first_token: int) -> None:
        from agentprof.engines import llama_cpp

        until_headers = self._until_headers()
        if until_headers is not None and self._headers_at is not None:
            llama_cpp.note_queue(self._answer, until_headers, until_headers + first_token - self._headers_at)
