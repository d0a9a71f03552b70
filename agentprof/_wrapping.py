"""Puts a mark around functions of every kind: plain, async, generator and async generator.

What comes out is a plain function of the same kind with the same parameters. A plain function that hands out
a coroutine or generator of its own is measured until that is through. No context token is kept across a
`yield`: a generator runs in its own context for each step, and the caller's context is its own in between.
"""

from __future__ import annotations

import functools
import inspect
import opcode
import sys
import types
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Protocol

from agentprof import _guard, _signature
from agentprof._context import Attachment


class Run(Protocol):
    """One run of a marked function."""

    def attach(self) -> Attachment:
        """Make its context current."""

    def end(self, error: BaseException | None) -> None:
        """It is over, with the exception that left it; of several calls the first counts."""


Start = Callable[[tuple[Any, ...], dict[str, Any]], "Run | None"]
"""Starts a run with these arguments; it only looks at them."""


def wrap(function: Callable[..., Any], start: Start) -> Callable[..., Any]:
    """A function of the same kind that starts a run when it begins, and ends it when it is through."""
    if inspect.isasyncgenfunction(function):
        return _signature.like(function, _signature.ASYNC_GENERATOR, _inside(function, start, _stream))
    if inspect.iscoroutinefunction(function):
        return _signature.like(function, _signature.COROUTINE, _inside(function, start, _wait))
    if inspect.isgeneratorfunction(function):
        generate = _signature.like(function, _signature.GENERATOR, _inside(function, start, _generate))
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & inspect.CO_ITERABLE_COROUTINE:
            return types.coroutine(generate)
        return generate
    return _plain(function, start)


def _detach(attachment: Attachment | None) -> None:
    if attachment is not None:
        try:
            attachment.detach()
        except Exception:
            _guard.failed("leaving a context")


def _end(opened: Run | None, error: BaseException | None = None) -> None:
    if opened is not None:
        try:
            opened.end(error)
        except Exception:
            _guard.failed("ending a mark")


def _inside(
    function: Callable[..., Any], start: Start, follow: Callable[[Run | None, Any], Any]
) -> Callable[..., Any]:
    """What runs inside a function that has begun."""

    def run(*args: Any, **kwargs: Any) -> Any:
        opened = start(args, kwargs)
        try:
            inner = function(*args, **kwargs)
        except BaseException as error:
            _end(opened, error)
            raise
        return follow(opened, inner)

    return run


def _plain(function: Callable[..., Any], start: Start) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        opened = start(args, kwargs)
        attachment = opened.attach() if opened is not None else None
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            _detach(attachment)
            _end(opened, error)
            raise
        _detach(attachment)
        follow = _FOLLOWED.get(type(result))
        if follow is None or opened is None or not _is_new(result):
            _end(opened)
            return result
        return _followed(opened, result, follow)

    _give_methods(function, call)
    return call


def _give_methods(wrapped: Callable[..., Any], wrapper: Callable[..., Any]) -> None:
    """What a callable object can do beside being called, as `cache_info` of a cached function, stays at hand."""
    if isinstance(wrapped, (types.FunctionType, types.MethodType)):
        return
    kind = type(wrapped)
    for name in dir(kind):
        if not name.startswith("_") and not hasattr(wrapper, name):
            found = inspect.getattr_static(kind, name)
            if callable(found) or isinstance(found, (staticmethod, classmethod)):
                setattr(wrapper, name, getattr(wrapped, name))


# --- what comes out of functions -----------------------------------------------------------------
def _is_new(result: Any) -> bool:
    """Whether nobody has begun with a coroutine or generator: else it is of somebody else."""
    if isinstance(result, types.CoroutineType):
        return inspect.getcoroutinestate(result) == inspect.CORO_CREATED
    if isinstance(result, types.GeneratorType):
        # An iterable coroutine would lose the right to be awaited.
        is_plain = not result.gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE
        return is_plain and inspect.getgeneratorstate(result) == inspect.GEN_CREATED
    if sys.version_info >= (3, 12):
        return inspect.getasyncgenstate(result) == inspect.AGEN_CREATED
    frame, code = result.ag_frame, result.ag_code
    return frame is not None and code.co_code[frame.f_lasti] == opcode.opmap["RETURN_GENERATOR"]


def _followed(opened: Run, result: Any, follow: Callable[[Run | None, Any], Any]) -> Any:
    """One of the same type and name, which ends the run when it is through."""
    outer = follow(opened, result)
    try:
        outer.__name__, outer.__qualname__ = result.__name__, result.__qualname__
        # Nobody may ever begin with it.
        weakref.finalize(outer, _dropped, opened, result).atexit = False
    except Exception:
        _guard.failed("following a result")
    return outer


def _dropped(opened: Run, inner: Any) -> None:
    if isinstance(inner, types.CoroutineType):
        inner.close()  # the outer one has warned already if it was never awaited
    _end(opened)


async def _wait(opened: Run | None, inner: Coroutine[Any, Any, Any]) -> Any:
    attachment = opened.attach() if opened is not None else None
    try:
        result = await inner
    except BaseException as error:
        _detach(attachment)
        _end(opened, error)
        raise
    _detach(attachment)
    _end(opened)
    return result


def _generate(opened: Run | None, inner: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    step: Callable[..., Any] = inner.send
    value: Any = None
    while True:
        attachment = opened.attach() if opened is not None else None
        try:
            item = step(value)
        except StopIteration as stop:
            _detach(attachment)
            _end(opened)
            return stop.value
        except BaseException as error:
            _detach(attachment)
            _end(opened, error)
            raise
        _detach(attachment)
        try:
            value = yield item
            step = inner.send
        except GeneratorExit:
            _close(opened, inner)
            raise
        except BaseException as thrown:
            step, value = inner.throw, thrown


def _close(opened: Run | None, inner: Generator[Any, Any, Any]) -> None:
    attachment = opened.attach() if opened is not None else None
    try:
        inner.close()
    except BaseException as error:
        _detach(attachment)
        _end(opened, error)
        raise
    _detach(attachment)
    _end(opened)


async def _stream(opened: Run | None, inner: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
    step: Callable[..., Any] = inner.asend
    value: Any = None
    while True:
        attachment = opened.attach() if opened is not None else None
        try:
            item = await step(value)
        except StopAsyncIteration:
            _detach(attachment)
            _end(opened)
            return
        except BaseException as error:
            _detach(attachment)
            _end(opened, error)
            raise
        _detach(attachment)
        try:
            value = yield item
            step = inner.asend
        except GeneratorExit:
            await _aclose(opened, inner)
            raise
        except BaseException as thrown:
            step, value = inner.athrow, thrown


async def _aclose(opened: Run | None, inner: AsyncGenerator[Any, Any]) -> None:
    attachment = opened.attach() if opened is not None else None
    try:
        await inner.aclose()
    except BaseException as error:
        _detach(attachment)
        _end(opened, error)
        raise
    _detach(attachment)
    _end(opened)


_FOLLOWED: dict[type, Callable[[Run | None, Any], Any]] = {
    types.CoroutineType: _wait,
    types.GeneratorType: _generate,
    types.AsyncGeneratorType: _stream,
}
