"""The task in the baggage of the program, by which other processes of it know whose work they do.

What sends it on and takes it in is the program's own instrumentation of HTTP clients and servers. To a host of
models it does not go: while a call is open, and around requests to hosts of known providers, it is taken out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Span

from agentprof import attributes
from agentprof._asked import Key, key_in

if TYPE_CHECKING:
    from agentprof._task import Task

TASK: Final = attributes.TASK_ID
KEY: Final = attributes.TASK_KEY

# Where the API keeps baggage and span in a context, which it does not say.
(_PLACE,) = baggage.set_baggage(TASK, "", Context())
(_SPAN,) = trace.set_span_in_context(INVALID_SPAN, Context())
PLACE_OF_TASK: Final = otel_context.create_key("agentprof-task")
"""Where a context holds the task that the program declared here."""

_REMEMBERED: Final = 256
_LONGEST_ID: Final = 256
_remote: OrderedDict[tuple[str, Key], Task] = OrderedDict()
"""Tasks of other processes that this one works for."""


def carrying(task: Task, context: Context) -> Context:
    """A context whose baggage names the task."""
    before = without(context) if is_in(context) else context
    context = baggage.set_baggage(TASK, task.id, context)
    context = baggage.set_baggage(KEY, task.key.secret.hex(), context)
    task.baggage = (context[_PLACE], before.get(_PLACE))
    return context


def is_in(context: Context) -> bool:
    """Whether the baggage of a context names a task."""
    held: Any = context.get(_PLACE)
    return held is not None and TASK in held


def of_call(span: Span, held: Context) -> Context | None:
    """A context like `held`, inside a call, without the task in its baggage; None where that takes longer."""
    named = held.get(_PLACE)
    if named is None:
        return Context({**held, _SPAN: span})
    task: Task | None = held.get(PLACE_OF_TASK)  # type: ignore[assignment]
    if task is None or task.baggage is None or task.baggage[0] is not named:
        return None  # the program has added to it since the task began
    # All at once: one step after the other copies the context each time.
    return Context({**held, _SPAN: span, _PLACE: task.baggage[1]})


def without(context: Context) -> Context:
    """The context as it goes to a host of models: the rest of the program's baggage stays."""
    return baggage.remove_baggage(KEY, baggage.remove_baggage(TASK, context))


def header_of(task: Task) -> str:
    """A `baggage` header that names a task and nothing else."""
    return f"{TASK}={quote(task.id, safe='')},{KEY}={task.key.secret.hex()}"


def with_header(header: str, context: Context) -> Context:
    """A context whose baggage names the task that a `baggage` header names; the same where it names none."""
    if not is_written(header):
        return context
    from opentelemetry.baggage.propagation import W3CBaggagePropagator

    said = baggage.get_all(W3CBaggagePropagator().extract({"baggage": header}, Context()))
    for name in (TASK, KEY):
        if name in said:
            context = baggage.set_baggage(name, said[name], context)
    return context


def is_written(header: str) -> bool:
    """Whether a `baggage` header names a task."""
    return TASK in header or KEY in header


def rewritten(header: str) -> str:
    """The header without it; empty if nothing else is in it."""
    members = [member for member in header.split(",") if member.partition("=")[0].strip() not in (TASK, KEY)]
    return ",".join(members)


def task_in(context: Context) -> Task | None:
    """The task that the baggage names, which another process has started; anybody may have written it."""
    held: Mapping[str, object] | None = context.get(_PLACE)  # type: ignore[assignment]
    if held is None or TASK not in held:
        return None
    task_id, key = held[TASK], key_in(held.get(KEY))
    if not isinstance(task_id, str) or not 0 < len(task_id) <= _LONGEST_ID:
        return None
    from agentprof import _task

    found = _task.by_id(task_id)
    if found is not None and (key is None or found.key == key):
        return found
    place = (task_id, key or Key.of_process())
    found = _remote.get(place)
    if found is None:
        found = _remote[place] = _task.RemoteTask(*place)
        while len(_remote) > _REMEMBERED:
            _remote.popitem(last=False)
    return found
