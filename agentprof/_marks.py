"""`task`, `tool`, `step` and `human`: the marks a program puts around its own work."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import CodeType
from typing import Any, Generic, TypeVar, cast, overload

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.util.types import AttributeValue

from agentprof import _context, _guard, _names, _runtime, _wrapping, attributes
from agentprof._asked import arguments_hash
from agentprof._clock import anchor_ns, stamp_ns
from agentprof._context import Attachment
from agentprof._task import Task
from agentprof.money import billed

Handle = TypeVar("Handle")
Function = TypeVar("Function", bound=Callable[..., Any])

Given = tuple[CodeType | None, tuple[Any, ...], dict[str, Any]]
"""The code of a function, and what it was called with."""


def _say_arguments(said: dict[str, AttributeValue], task: Task | None, given: Given) -> None:
    found = arguments_hash(task.key if task is not None else None, *given)
    if found is not None:
        said[attributes.FINGERPRINT_ARGUMENTS] = found


class _Opened:
    """One run of a mark: its span, and the context its work runs in."""

    __slots__ = ("_anchor", "_cost", "_ended", "_pid", "_span", "_starts", "attachment", "context", "task")

    def __init__(self, mark: Mark[Any], name: str, given: Given | None) -> None:
        runtime = _runtime.active()
        above = _context.task_in()
        self._starts = mark.starts_task
        self._cost = mark.cost_usd
        self._pid = os.getpid()
        self._ended = False
        self.attachment: Attachment | None = None
        if self._starts:
            # A declared task is one of its own, not a part of the run.
            above = _context.declared_task()
            self.task: Task | None = Task(name, mark.task_id, mark.labels, above)
            for key, value in _context.run_labels().items() if above is None else ():
                if key not in self.task.labels:
                    self.task.label(key, value)
            said: dict[str, AttributeValue] = {**self.task.start_attributes()}
        else:
            self.task = above
            said = mark.attributes(name)
            if above is not None:
                said[attributes.TASK_ID] = above.id
            if given is not None and mark.compares_arguments:
                _say_arguments(said, above, given)
        if self.task is not None:
            self._anchor = self.task.anchor_ns
        else:
            self._anchor = runtime.anchor_ns if runtime is not None else anchor_ns()
        tracer = runtime.tracer if runtime is not None else trace.get_tracer(_runtime.SCOPE)
        self._span = tracer.start_span(
            mark.span_name(name),
            context=None if self._starts else _context.span_context(),
            kind=SpanKind.INTERNAL,
            attributes=said,
            start_time=stamp_ns() + self._anchor,
        )
        context = trace.set_span_in_context(self._span)
        if self._starts and self.task is not None:
            context = _context.with_task(self.task, context)
        self.context = context
        if self.task is not None:
            if self._starts:
                self.task.note_start(self._span)
            if self._span.is_recording():
                self.task.note_open(self._span)

    def attach(self) -> Attachment:
        return Attachment(self.context)

    def end(self, error: BaseException | None) -> None:
        """End the span; of several calls the first counts."""
        if self._ended or os.getpid() != self._pid:
            return  # a forked child carries the task on, its parent ends it
        self._ended = True
        failed = error is not None and not _is_quiet(error)
        said: dict[str, AttributeValue] = {}
        if self._starts and self.task is not None:
            said.update(self.task.end_attributes(failed))
        elif self._cost is not None and self.task is not None:
            self.task.count_cost(self._cost)
        if failed:
            # The type only: messages of exceptions quote prompts and answers.
            said[attributes.ERROR_TYPE] = type(error).__qualname__
            self._span.set_status(StatusCode.ERROR)
        self._span.set_attributes(said)
        if self.task is not None:
            self.task.note_ended(self._span)
        self._span.end(stamp_ns() + self._anchor)

    def fail(self, kind: str) -> None:
        """Note that what was done says itself that it failed."""
        self._span.set_attribute(attributes.ERROR_TYPE, kind)
        self._span.set_status(StatusCode.ERROR)

    def discard(self) -> None:
        """Let it be as if it had never begun: its span is never ended, and so never seen."""
        self._ended = True
        if self.task is not None:
            self.task.note_ended(self._span)


def _is_quiet(error: BaseException) -> bool:
    """Whether an exception is an ordinary way to leave."""
    if isinstance(error, SystemExit):
        return error.code in (None, 0)
    return isinstance(error, GeneratorExit)


class Mark(Generic[Handle]):
    """Marks a stretch of work: `with mark:`, `async with mark:`, or `@mark` on any kind of function."""

    def __init__(
        self,
        name: str | None,
        *,
        kind: str = "step",
        span_prefix: str = "",
        starts_task: bool = False,
        task_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        cost_usd: Decimal | None = None,
        describe: Callable[[str], dict[str, AttributeValue]] | None = None,
        compares_arguments: bool = False,
    ) -> None:
        self._name = _names.text(name, _names.NAME_CHARS)
        self._kind = kind
        self._span_prefix = span_prefix
        self.starts_task = starts_task
        self.task_id = task_id
        self.labels = labels
        self.cost_usd = cost_usd
        self.compares_arguments = compares_arguments
        """Whether runs with the same arguments are the same thing done again."""
        self._describe = describe
        self._running: list[_Opened] = []

    def span_name(self, name: str) -> str:
        """Name of the span of a run."""
        return self._span_prefix + name

    def attributes(self, name: str) -> dict[str, AttributeValue]:
        """Attributes of the span of a run that starts no task."""
        return self._describe(name) if self._describe is not None else {}

    def open(self, fallback: str, given: Given | None = None) -> _Opened | None:
        """Start a run; None if that failed, which the program must not notice."""
        try:
            return _Opened(self, self._name or fallback, given)
        except Exception:
            _guard.failed("starting a mark")
            return None

    def __enter__(self) -> Handle:
        opened = self.open(self._kind)
        if opened is None:
            return cast("Handle", Task(self._name, None, None, None) if self.starts_task else None)
        opened.attachment = opened.attach()
        self._running.append(opened)
        return cast("Handle", opened.task)

    def __exit__(self, kind: object, error: BaseException | None, trace_back: object) -> None:
        try:
            opened = self._leave()
            if opened is not None:
                if opened.attachment is not None:
                    opened.attachment.detach()
                opened.end(error)
        except Exception:
            _guard.failed("ending a mark")

    def _leave(self) -> _Opened | None:
        """The run that ends here: one mark may be entered by several threads or asyncio tasks at a time."""
        current, running = otel_context.get_current(), self._running
        for opened in reversed([*running]):  # a copy: others may leave meanwhile
            if opened.context is current:
                with contextlib.suppress(ValueError):  # another thread, whose own is gone, may have taken it
                    running.remove(opened)
                return opened
        try:
            return running.pop()
        except IndexError:
            return None

    async def __aenter__(self) -> Handle:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace_back: object) -> None:
        self.__exit__(kind, error, trace_back)

    def __call__(self, function: Function) -> Function:
        if isinstance(function, (staticmethod, classmethod)):
            return cast("Function", type(function)(self(function.__func__)))
        if inspect.isclass(function) or not callable(function):
            raise TypeError(f"agentprof marks functions and methods, not {function!r}")
        name, code = _name_of(function), getattr(function, "__code__", None)

        def start(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Opened | None:
            return self.open(name, (code, args, kwargs))

        return cast("Function", _wrapping.wrap(function, start))


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def task(name: str, *, id: str | None = None, labels: Mapping[str, str] | None = None) -> Mark[Task]:
    """Mark one complete unit of agent work.

    Args:
        name: What kind of task it is; tasks of one name are compared with each other.
        id: Its identity; by default a new one for every run.
        labels: What it runs for, such as customer or variant.

    Returns:
        A context manager that gives the `Task`, and a decorator.
    """
    return Mark(name, kind="task", starts_task=True, task_id=id, labels=labels)


def _describe_tool(cost_usd: Decimal | None, name: str) -> dict[str, AttributeValue]:
    said: dict[str, AttributeValue] = {attributes.OPERATION: "execute_tool", attributes.TOOL_NAME: name}
    if cost_usd is not None:
        said[attributes.COST] = str(cost_usd)
        said[attributes.COST_SOURCE] = "given"
    return said


@overload
def tool(name: Function) -> Function: ...
@overload
def tool(name: str | None = None, *, cost_usd: Decimal | float | str | None = None) -> Mark[Task | None]: ...
def tool(name: Any = None, *, cost_usd: Decimal | float | str | None = None) -> Any:
    """Mark one execution of a tool.

    Args:
        name: Name of the tool; by default that of the decorated function.
        cost_usd: What one execution costs in US dollars; what is no amount is unknown, and said once in the log.

    Returns:
        A context manager that gives the task around it, and a decorator. `@tool` alone works too.
    """
    cost = None if cost_usd is None else billed(cost_usd)
    if cost is None and cost_usd is not None:
        _guard.noted(
            "cost of a tool", "agentprof: cost_usd is no amount in US dollars, zero or more; it is unknown"
        )
    if name is not None and not isinstance(name, str):
        return tool()(name)
    return Mark(
        name,
        kind="tool",
        span_prefix="execute_tool ",
        cost_usd=cost,
        describe=functools.partial(_describe_tool, cost),
        compares_arguments=True,
    )


def step(name: str) -> Mark[Task | None]:
    """Mark any other named stretch: an agent inside a task, retrieval, parsing."""
    return Mark(name, describe=lambda name: {attributes.STEP_NAME: name})


def human() -> Mark[Task | None]:
    """Mark a stretch that waits for a person."""
    return Mark("human", describe=lambda name: {attributes.HUMAN: True, attributes.STEP_NAME: name})
