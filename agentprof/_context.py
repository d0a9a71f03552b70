"""The current task in the OpenTelemetry context."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span

from agentprof import _baggage, _runtime

if TYPE_CHECKING:
    from agentprof._task import Task

_TASK_KEY = _baggage.PLACE_OF_TASK


class Base(NamedTuple):
    """What everything outside a declared task belongs to: the run of the whole program."""

    task: Task
    context: Context
    """Holds the span of the run."""


_base: Base | None = None


def set_base(base: Base | None) -> None:
    """Make a task that of everything outside declared ones, in all threads of this process."""
    global _base
    _base = base


def task_in(context: Context | None = None) -> Task | None:
    """The task of a context, by default of the current one; outside any that of the run, if there is one."""
    held = otel_context.get_current() if context is None else context
    declared = cast("Task | None", held.get(_TASK_KEY))
    if declared is None:
        declared = _baggage.task_in(held)
    if declared is None and _base is not None:
        return _base.task
    return declared


def declared_task(context: Context | None = None) -> Task | None:
    """The task of a context, by default of the current one, that the program declared, here or elsewhere."""
    held = otel_context.get_current() if context is None else context
    return cast("Task | None", held.get(_TASK_KEY)) or _baggage.task_in(held)


def run_labels() -> dict[str, str]:
    """Labels of the run, which its tasks have too."""
    return _base.task.labels if _base is not None else {}


def span_context(current: Context | None = None) -> Context | None:
    """The context a span of ours starts in, given the current one; None: the current one.

    Where the program has no span open ours hang from that of the run. It is not made current: the
    program's own spans keep the parents they have without us.
    """
    if _base is None or trace.get_current_span(current).get_span_context().is_valid:
        return current
    return _base.context


def with_task(task: Task, context: Context) -> Context:
    """A context like the given one, inside a task; its baggage says so to other processes of the program."""
    if _runtime.active() is not None:
        context = _baggage.carrying(task, context)
    return otel_context.set_value(_TASK_KEY, task, context)


def with_call(span: Span, context: Context) -> Context:
    """A context like the given one, inside a call: what is sent here goes to a host of models."""
    known = _baggage.of_call(span, context)
    if known is not None:
        return known
    context = trace.set_span_in_context(span, context)
    return hushed(context) if _baggage.is_in(context) else context


def hushed(context: Context) -> Context:
    """A context whose baggage does not name its task any more; it is the task of it all the same."""
    task = declared_task(context)
    context = _baggage.without(context)
    return otel_context.set_value(_TASK_KEY, task, context) if task is not None else context


def is_named(context: Context) -> bool:
    """Whether the baggage of a context names its task."""
    return _baggage.is_in(context)


class Attachment:
    """A context made current until `detach()`, which may safely come late, elsewhere or never."""

    __slots__ = ("_before", "_context")

    def __init__(self, context: Context, before: Context | None = None) -> None:
        """Args:
        before: The current context, if it is at hand.
        """
        self._before = before if before is not None else otel_context.get_current()
        self._context = context
        otel_context.attach(context)

    def detach(self) -> None:
        """Bring back the context before, if this one is still the current one here.

        Set anew instead of reset by token: a generator may be closed in a copy of the context it was
        opened in, where its token is not valid.
        """
        if otel_context.get_current() is self._context:
            otel_context.attach(self._before)
