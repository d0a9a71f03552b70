"""Puts a mark around functions of every kind: plain, async, generator and async generator.

What comes out is a plain function of the same kind. No context token is kept across a `yield`: a generator
runs in its own context for each step, and the caller's context is its own in between.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol

from agentprof import _guard
from agentprof._context import Attachment


class Run(Protocol):
    """One run of a marked function."""

    def attach(self) -> Attachment:
        """Make its context current."""

    def end(self, error: BaseException | None) -> None:
        """It is over, with the exception that left it."""


Start = Callable[[], "Run | None"]


def wrap(function: Callable[..., Any], start: Start) -> Callable[..., Any]:
    """A function of the same kind that starts a run when it is called, and ends it when it is through."""
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, start)
    if inspect.isgeneratorfunction(function):
        return _generator(function, start)
    if inspect.iscoroutinefunction(function):
        return _coroutine(function, start)
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


def _plain(function: Callable[..., Any], start: Start) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        opened = start()
        attachment = opened.attach() if opened is not None else None
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            _detach(attachment)
            _end(opened, error)
            raise
        _detach(attachment)
        _end(opened)
        return result

    return call


def _coroutine(function: Callable[..., Any], start: Start) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        opened = start()
        attachment = opened.attach() if opened is not None else None
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            _detach(attachment)
            _end(opened, error)
            raise
        _detach(attachment)
        _end(opened)
        return result

    return call


def _generator(function: Callable[..., Any], start: Start) -> Callable[..., Any]:
    @functools.wraps(function)
    def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        opened = start()
        inner = function(*args, **kwargs)
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

    return generate


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


def _async_generator(function: Callable[..., Any], start: Start) -> Callable[..., Any]:
    @functools.wraps(function)
    async def generate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        opened = start()
        inner = function(*args, **kwargs)
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

    return generate


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
