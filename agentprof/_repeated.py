"""Calls of SDKs that repeat failed attempts themselves: one call, from its first attempt to what the SDK gives back.

The SDK's method that repeats opens a `Scope`; what the HTTP library below it sends meanwhile are attempts of one call.
Between attempts no call is open here, so that what else the SDK does then, to renew a login say, is no part of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry import context as otel_context

from agentprof import _calls, _context, _runtime
from agentprof._calls import Call
from agentprof._clock import stamp_ns
from agentprof._context import Attachment
from agentprof._failures import failure_kind
from agentprof.dialects import Answer

_NS: Final = 1e9
_scope: ContextVar[Scope | None] = ContextVar("agentprof_scope", default=None)


def open_scope(kind: type[Scope] | None = None) -> Scope | None:
    """Begin a scope; None inside another one or inside a call: attempts belong to that.

    Args:
        kind: Another one than `Scope`.
    """
    if _runtime.active() is None or current_scope() is not None:
        return None
    call = _calls.current_call()
    if call is not None and call.is_open:
        return None
    return Scope() if kind is None else kind()


def current_scope() -> Scope | None:
    """The scope that is open here."""
    scope = _scope.get()
    return scope if scope is not None and scope.is_open else None


def call_maker() -> Callable[..., Call]:
    """What gives the call to which a request belongs that is about to be sent: of the open scope, or one of its own.

    It takes what a `Call` is made of.
    """
    scope = _scope.get()
    return scope.call_for if scope is not None and scope.is_open else Call


class Scope:
    """One use of a method that repeats attempts."""

    __slots__ = ("_around", "call", "is_open")

    def __init__(self) -> None:
        self.call: RepeatedCall | None = None
        """None as long as no attempt was made in it, and none is expected."""
        self._around: Attachment | None = None
        """Makes the span of an expected call the current one."""
        self.is_open = True
        """A context that was copied meanwhile may hold the scope longer than it lasts."""
        _scope.set(self)

    def call_for(self, *args: Any) -> Call:
        """The call to which a request belongs that is about to be sent.

        Args:
            args: What a `Call` is made of.
        """
        if self.call is None:
            self.call = RepeatedCall(*args)
        elif self.call.is_expected:
            self.call.first()
        elif self.call.is_waiting:
            self.call = self.call.again()
        else:  # beside an attempt that is not over, or after the end of the call
            return Call(*args)
        return self.call

    def expect(self) -> None:
        """The call that was made for the scope is still to be sent: no attempt of it is open until then.

        Its span stays the current one up to the end of the scope, so that what the SDK traces itself hangs from it.
        """
        if self.call is not None:
            self._around = self.call.expect()

    def end(self, error: BaseException | None) -> None:
        """The method returned, or raised this error."""
        self.is_open = False
        if _scope.get() is self:
            _scope.set(None)
        if self._around is not None:
            self._around.detach()
        call, self.call = self.call, None
        if call is not None:
            call.settle(error)


class ScopeOfTarget(Scope):
    """One use of a method that may also ask another model, or ask once more after an answer.

    Only what is sent to the same place, after an attempt that failed, is another attempt of the same call.
    """

    __slots__ = ("_target",)
    _target: tuple[Any, ...]

    def call_for(self, *args: Any) -> Call:
        """The same."""
        _, dialect, model, _, host, port, _ = args
        target = (dialect, model, host, port)
        call = self.call
        if call is not None and call.is_waiting and (call.failed_as is None or target != self._target):
            call.end_as_it_was()
        if call is not None and not call.is_open:
            self.call = None
        if self.call is None:
            self._target = target
        return super().call_for(*args)

    def end(self, error: BaseException | None) -> None:
        """The method returned, or raised this error; what it did after the answer is no part of the call."""
        call = self.call
        if call is not None and call.is_waiting and (error is None or call.failed_as is not None):
            call.end_as_it_was(error)
        super().end(error)


class RepeatedCall(Call):
    """A call that is over when its scope is: until then only an attempt of it ends."""

    __slots__ = ("_broke", "_failed_as", "_held", "_is_fresh", "_over_at", "is_expected")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._held = True
        self._over_at = 0
        """When the HTTP library was done with the last attempt; 0: it is not."""
        self._failed_as: str | None = None
        self._broke = False
        """Whether it failed while its body was read."""
        self._is_fresh = False
        """Whether an attempt was prepared whose exchange has not begun."""
        self.is_expected = False
        """Whether its first attempt is still to come."""
        super().__init__(*args, **kwargs)

    @property
    def is_waiting(self) -> bool:
        """Whether the last attempt is over, and the call is not."""
        return self.is_open and self._held and self._over_at != 0

    @property
    def failed_as(self) -> str | None:
        """The status of the last attempt, if it failed."""
        return self._refused or self._failed_as

    # --- attempts --------------------------------------------------------------------------------
    def expect(self) -> Attachment:
        """Its first attempt comes later.

        Returns:
            What makes its span the current one, also between its attempts.
        """
        self.is_expected = True
        _calls._current.reset(self._token)
        return self._attachment

    def first(self) -> None:
        """The attempt that was expected."""
        self.is_expected = False
        self._enter()

    def _enter(self) -> None:
        current = otel_context.get_current()
        self._attachment = Attachment(_context.with_call(self._span, current), current)
        self._token = _calls._current.set(self)

    def again(self) -> RepeatedCall:
        """The call goes on with another attempt.

        Returns:
            What stands for it from now on: what is still held of the attempt before can end nothing any more.
        """
        goes_on = copy.copy(self)
        self.is_open = False
        _calls._reading.discard(self)
        goes_on._begin_attempt()
        return goes_on

    def _begin_attempt(self) -> None:
        now = stamp_ns()
        self._attempt_over(now, self.failed_as or "repeated")
        self._attempt_began = now
        received = self._answer.received
        self._answer = Answer()
        if received is not None:
            self._answer.received = type(received)()
        self._arrivals = self._first_byte = self._headers_at = self._refused = self._failed_as = None
        self._answered = self._broke = self.hides_usage = False
        self.body = self.headers = self.status_code = None
        self._over_at = 0
        self._is_fresh = True
        self._enter()

    def _attempt_over(self, now: int, status: str) -> None:
        """Note a failed attempt: it was over when the HTTP library was done with it, and what came then is a pause."""
        super()._attempt_over(self._over_at or now, status)
        if self._over_at:
            self._failed[-1].pause_s = (now - self._over_at) / _NS

    def exchange(self) -> str | None:
        """The first of an attempt, or one to which another led."""
        if not self._is_fresh:
            return super().exchange()
        self._is_fresh = False
        return self.attempt()

    # --- ends ------------------------------------------------------------------------------------
    def returned(self) -> None:
        """The HTTP library gave an answer, perhaps a refusal."""
        if self._held:
            self._over_at = stamp_ns()
        else:
            super().returned()

    def failed(self, error: BaseException, status: str) -> None:
        """The HTTP library raised."""
        if not self._held:
            super().failed(error, status)
        elif not self._broke:
            self._over_at = stamp_ns()
            self._failed_as = status

    def stream_failed(self, error: BaseException, now: int) -> None:
        """Reading a body raised: inside the scope that of an attempt."""
        if not self._held:
            super().stream_failed(error, now)
        elif not self._broke:
            self._over_at = now
            self._failed_as = failure_kind(error)
            self._broke = True

    def stream_left(self) -> None:
        """A body was closed: one that broke in the scope says nothing more by that."""
        if not (self._held and self._broke):
            super().stream_left()

    def end_as_it_was(self, error: BaseException | None = None) -> None:
        """It was over when its last attempt was, unless its stream is still to be read.

        Args:
            error: What the program gets for a failure.
        """
        failed_as = self.failed_as
        if failed_as is None and self._arrivals is not None:
            self.settle(None)
            return
        self._held = False
        self._end(self._over_at, type(error).__qualname__ if error is not None else failed_as)

    def settle(self, error: BaseException | None) -> None:
        """The scope is over: so is the call, unless its stream is still to be read."""
        self._held = False
        if self._broke and error is not None:
            super().stream_failed(error, self._over_at)
        elif error is not None:
            super().failed(error, self._failed_as or failure_kind(error))
        elif self.failed_as is not None:
            self._end(stamp_ns(), self.failed_as)
        else:
            self._over_at = 0
            super().returned()

    def _end(self, now: int, error_type: str | None) -> None:
        if self._failed_as is not None and self._refused is None:  # a refusal is noted with the rest
            self._attempt_over(now, self._failed_as)
        self._finish(now, error_type=error_type)
