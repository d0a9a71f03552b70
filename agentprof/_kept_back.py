"""Keeps our spans back where a program without a tracer provider would send one to a host of models.

A tracer that makes no spans hands out the present one again, and an instrumentation of an SDK or of an HTTP library
sends the context of what it gets. Without us there is no present span, and nothing is sent; with us it would be ours.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, MutableMapping
from typing import Any, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context

from agentprof import _calls, _context, _guard, _repeated, _runtime
from agentprof._calls import Call
from agentprof._context import Attachment
from agentprof._patching import Patch

MODULE: Final = "opentelemetry.trace"
_HERE: Final = otel_context.create_key("agentprof-kept-back")


def patches() -> list[Patch]:
    """What is replaced in tracers that make no spans."""
    original = vars(trace.NoOpTracer).get("start_span")
    if original is None:
        return []
    return [Patch(trace.NoOpTracer, "start_span", original, _start_span(original))]


def _start_span(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def start_span(self: Any, name: str, context: Context | None = None, *args: Any, **kwargs: Any) -> Any:
        span = original(self, name, context, *args, **kwargs)
        return trace.INVALID_SPAN if _is_kept_back(context) else span

    return start_span


def _is_kept_back(context: Context | None) -> bool:
    """Whether what is sent here goes to a host of models that may not know of the present span, and that is ours."""
    if _runtime.active() is None:
        return False
    try:
        call = _call_here()
        if call is not None:
            return not call._propagate and is_ours(context)
        in_sdk = _repeated.current_scope() is not None
        return (in_sdk or otel_context.get_value(_HERE) is not None) and is_ours(context)
    except Exception:
        _guard.failed("a tracer that makes no spans")
        return False


def is_ours(context: Context | None = None) -> bool:
    """Whether the span of a context, by default of the current one, is of agentprof, or stands for one that is."""
    span = trace.get_current_span(context)
    scope = getattr(span, "instrumentation_scope", None)
    if scope is not None:
        return bool(scope.name == _runtime.SCOPE)
    said = span.get_span_context()
    if not said.is_valid:
        return False
    call = _call_here()
    if call is not None and call._span.get_span_context() == said:
        return True
    task = _context.task_in(context)
    return task is not None and said.span_id in task._recorded.live


def _call_here() -> Call | None:
    """The call that is open here, or that an SDK has yet to send or to repeat."""
    call, scope = _calls.current_call(), _repeated.current_scope()
    if call is not None and call.is_open:  # what was started in a call may outlive it
        return call
    return scope.call if scope is not None else None


def keeping_back(context: Context) -> Context:
    """A context like the given one, for a request to a host of models that is no call."""
    return otel_context.set_value(_HERE, True, context)


def without_span() -> Attachment | None:
    """Make a context current that names no span, if the present one is ours; None: it is not."""
    if not is_ours():
        return None
    return Attachment(trace.set_span_in_context(trace.INVALID_SPAN))


def take_out(headers: MutableMapping[str, str]) -> None:
    """Take a `traceparent` out that another instrumentation has written, if it names a span of ours."""
    said = headers.get("traceparent")
    if said is None or not is_ours():
        return
    span = trace.get_current_span().get_span_context()
    if said.split("-")[1:3] == [f"{span.trace_id:032x}", f"{span.span_id:016x}"]:
        del headers["traceparent"]
