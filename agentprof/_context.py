"""The current task in the OpenTelemetry context, and how that context reaches other threads."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context

from agentprof import _guard, _runtime
from agentprof._patching import Patch

if TYPE_CHECKING:
    from agentprof._task import Task

_TASK_KEY = otel_context.create_key("agentprof-task")
_POOL_MODULE = "concurrent.futures.thread"


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
    if declared is None and _base is not None:
        return _base.task
    return declared


def declared_task() -> Task | None:
    """The task around the caller that the program declared."""
    return cast("Task | None", otel_context.get_current().get(_TASK_KEY))


def run_labels() -> dict[str, str]:
    """Labels of the run, which its tasks have too."""
    return _base.task.labels if _base is not None else {}


def span_context() -> Context | None:
    """The context a span of ours starts in; None: the current one.

    Where the program has no span open ours hang from that of the run. It is not made current: the
    program's own spans keep the parents they have without us.
    """
    if _base is None or trace.get_current_span().get_span_context().is_valid:
        return None
    return _base.context


def with_task(task: Task, context: Context) -> Context:
    """A context like the given one, inside a task."""
    return otel_context.set_value(_TASK_KEY, task, context)


class Attachment:
    """A context made current until `detach()`, which may safely come late, elsewhere or never."""

    __slots__ = ("_before", "_context")

    def __init__(self, context: Context) -> None:
        self._before = otel_context.get_current()
        self._context = context
        otel_context.attach(context)

    def detach(self) -> None:
        """Bring back the context before, if this one is still the current one here.

        Set anew instead of reset by token: a generator may be closed in a copy of the context it was
        opened in, where its token is not valid.
        """
        if otel_context.get_current() is self._context:
            otel_context.attach(self._before)


def _run_in(context: Context, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    token = otel_context.attach(context)
    try:
        return function(*args, **kwargs)
    finally:
        otel_context.detach(token)


def _run_thread(thread: threading.Thread, context: Context, run: Callable[[], None]) -> None:
    vars(thread).pop("run", None)  # else the thread would refer to itself
    _run_in(context, run)


def _start_patch() -> Patch:
    original = threading.Thread.start

    @functools.wraps(original)
    def start(self: threading.Thread) -> None:
        if _runtime.active() is not None:
            try:
                context = otel_context.get_current()
                # Workers of a pool outlive the task that happened to start them; their work brings its own.
                target = getattr(self, "_target", None)
                if context and getattr(target, "__module__", None) != _POOL_MODULE:
                    run = functools.partial(_run_thread, self, context, self.run)
                    self.run = run  # type: ignore[method-assign]
            except Exception:
                _guard.failed("starting a thread")
        original(self)

    return Patch(threading.Thread, "start", original, start)


def _submit_patch() -> Patch:
    pool = concurrent.futures.ThreadPoolExecutor
    original: Callable[..., Future[Any]] = pool.submit

    @functools.wraps(original)
    def submit(
        self: concurrent.futures.ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        if _runtime.active() is not None and (context := otel_context.get_current()):
            return original(self, _run_in, context, fn, *args, **kwargs)
        return original(self, fn, *args, **kwargs)

    return Patch(pool, "submit", original, submit)


def patches() -> list[Patch]:
    """Threads and thread pools start their work in the context that asked for it.

    `loop.run_in_executor` and `asyncio.to_thread` go through the pool; asyncio tasks copy it by themselves.
    """
    return [_start_patch(), _submit_patch()]
