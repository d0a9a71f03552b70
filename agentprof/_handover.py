"""Work handed to threads and processes runs in the context of who handed it over.

Workers of pools outlive the task that happened to start them and carry none of their own; a thread that the
program starts itself carries the task it was started in for its life.
"""

from __future__ import annotations

import concurrent.futures
import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType
from typing import Any, Final, NamedTuple

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from agentprof import _context, _guard, _runtime, _task
from agentprof._asked import Key
from agentprof._patching import Patch

MODULES: Final[tuple[str, ...]] = (
    "concurrent.futures.process",
    "multiprocessing.pool",
    "multiprocessing.process",
)
"""Patched when they are imported."""

_POOLS: Final = frozenset(
    {
        "concurrent.futures.thread",
        "concurrent.futures.process",
        "multiprocessing.pool",
        "multiprocessing.queues",
    }
)
STANDARD: Final = frozenset({"threading", "concurrent.futures.thread", *MODULES})
"""All modules in which something is patched here."""

_DELIVERY_S: Final = 1.0
"""How long the end of a piece of work in another process may wait for its spans to leave; needed rarely."""

_POOL_METHODS: Final = (
    "apply_async",
    "map",
    "map_async",
    "starmap",
    "starmap_async",
    "imap",
    "imap_unordered",
)


def thread_patches() -> list[Patch]:
    """Threads and thread pools.

    `loop.run_in_executor` and `asyncio.to_thread` go through the pool; asyncio tasks copy the context by
    themselves.
    """
    return [_thread_start(), _submit(concurrent.futures.ThreadPoolExecutor)]


def patches(module: ModuleType) -> list[Patch]:
    """Pools of processes, and those of `multiprocessing.pool`."""
    if module.__name__ == "concurrent.futures.process":
        return [_submit(module.ProcessPoolExecutor)]
    if module.__name__ == "multiprocessing.process":
        return [_process_start(module.BaseProcess)]
    return [_pool_method(module.Pool, name) for name in _POOL_METHODS]


# --- workers -------------------------------------------------------------------------------------
def _is_worker(thread_or_process: Any) -> bool:
    target = getattr(thread_or_process, "_target", None)
    return getattr(target, "__module__", None) in _POOLS or type(thread_or_process).__module__ in _POOLS


def _run_thread(thread: threading.Thread, context: Context, run: Callable[[], None]) -> None:
    vars(thread).pop("run", None)  # else the thread would refer to itself
    _run_in(context, run)


def _thread_start() -> Patch:
    original = threading.Thread.start

    @functools.wraps(original)
    def start(self: threading.Thread) -> None:
        if _runtime.active() is not None:
            try:
                context = otel_context.get_current()
                if context and not _is_worker(self):
                    run = functools.partial(_run_thread, self, context, self.run)
                    self.run = run  # type: ignore[method-assign]
            except Exception:
                _guard.failed("starting a thread")
        original(self)

    return Patch(threading.Thread, "start", original, start)


def _process_start(owner: Any) -> Patch:
    """A forked process begins in the context it was started in."""
    original: Callable[..., None] = owner.start

    @functools.wraps(original)
    def start(self: Any) -> None:
        if _begins_without_a_task(self):
            _run_in(Context(), original, self)
        else:
            original(self)

    return Patch(owner, "start", original, start)


def _begins_without_a_task(process: Any) -> bool:
    """Whether it is a worker of a pool, which must not keep the task that it happens to be started in."""
    try:
        return _runtime.active() is not None and bool(otel_context.get_current()) and _is_worker(process)
    except Exception:
        _guard.failed("starting a process")
        return False


# --- work ----------------------------------------------------------------------------------------
def _run_in(context: Context, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    token = otel_context.attach(context)
    try:
        return function(*args, **kwargs)
    finally:
        otel_context.detach(token)


class Carried(NamedTuple):
    """What goes to another process with a piece of work: the task and the span that handed it over."""

    task: tuple[str, str, dict[str, str], Key] | None
    """Id, name, labels and key."""
    span: tuple[int, int, int]
    """Ids of trace and span, and the flags of the trace."""

    def context(self) -> Context:
        """The same context in this process."""
        trace_id, span_id, flags = self.span
        span = NonRecordingSpan(SpanContext(trace_id, span_id, True, TraceFlags(flags)))
        context = trace.set_span_in_context(span, Context())
        if self.task is None:
            return context
        task_id, name, labels, key = self.task
        task = _task.by_id(task_id)
        if task is None:
            task = _task.Task(name, task_id, labels, None)
            task.key = key
        return _context.with_task(task, context)


def _carried(context: Context) -> Carried:
    task = _context.declared_task(context)
    if task is not None:
        task.note_handed_over()
    span = trace.get_current_span(context).get_span_context()
    return Carried(
        (task.id, task.name, task.labels, task.key) if task is not None else None,
        (span.trace_id, span.span_id, int(span.trace_flags)),
    )


def run_carried(carried: Carried | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run a piece of work in another process, which may not be instrumented."""
    if _runtime.active() is None:
        return function(*args, **kwargs)
    try:
        context = carried.context() if carried is not None else Context()
    except Exception:
        _guard.failed("work from another process")
        return function(*args, **kwargs)
    try:
        return _run_in(context, function, *args, **kwargs)
    finally:
        _deliver()


def _deliver() -> None:
    """Hand on the spans of a piece of work: a pool that is left kills its workers without a word."""
    try:
        from agentprof import _export

        runtime = _runtime.active()
        # In a run also where nothing waits any more: it is told that a kill would lose nothing.
        if _export.stats().waiting or (runtime is not None and runtime.settings.run is not None):
            _export.flush(_DELIVERY_S)
    except Exception:
        _guard.failed("delivering the spans of a piece of work")


def _handed_over(pool: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, in the present context wherever the pool runs it."""
    try:
        if _runtime.active() is None:
            return function
        context = otel_context.get_current()
        if isinstance(pool, concurrent.futures.ThreadPoolExecutor) or not _has_processes(pool):
            return functools.partial(_run_in, context, function) if context else function
        if _is_instrumented(pool):
            return functools.partial(run_carried, _carried(context) if context else None, function)
    except Exception:
        _guard.failed("handing work over")
    return function


def _has_processes(pool: Any) -> bool:
    return not any(kind.__name__ == "ThreadPool" for kind in type(pool).__mro__)


def _is_instrumented(pool: Any) -> bool:
    """Whether the processes of a pool surely know agentprof: they are forks, or inside a run."""
    if "AGENTPROF_RUN" in os.environ:
        return True
    of_pool = getattr(pool, "_mp_context", None) or getattr(pool, "_ctx", None)
    return of_pool is not None and of_pool.get_start_method() == "fork"


def _submit(owner: Any) -> Patch:
    original: Callable[..., Future[Any]] = owner.submit

    @functools.wraps(original)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return original(self, _handed_over(self, fn), *args, **kwargs)

    return Patch(owner, "submit", original, submit)


def _pool_method(owner: Any, name: str) -> Patch:
    original: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(original)
    def method(self: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return original(self, _handed_over(self, func), *args, **kwargs)

    return Patch(owner, name, original, method)
