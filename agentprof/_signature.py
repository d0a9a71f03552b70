"""Functions of a kind that take the very parameters of another one.

A coroutine or generator function runs nothing when it is called, so Python itself has to find out there
whether the arguments are right: only a function with the same parameters does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

COROUTINE: Final = """\
async def call({parameters}):
    return await {run}({arguments})
"""

GENERATOR: Final = """\
def call({parameters}):
    return (yield from {run}({arguments}))
"""

ASYNC_GENERATOR: Final = """\
async def call({parameters}):
    {run}_inner = {run}({arguments})
    {run}_step, {run}_value = {run}_inner.asend, None
    while True:
        try:
            {run}_item = await {run}_step({run}_value)
        except StopAsyncIteration:
            return
        try:
            {run}_value = yield {run}_item
            {run}_step = {run}_inner.asend
        except GeneratorExit:
            await {run}_inner.aclose()
            raise
        except BaseException as {run}_thrown:
            {run}_step, {run}_value = {run}_inner.athrow, {run}_thrown
"""


def like(function: Callable[..., Any], kind: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a kind that passes its arguments on to `run`, with name and parameters of another."""
    parameters, arguments, name = "*args, **kwargs", "*args, **kwargs", "run"
    if inspect.isfunction(function):
        parameters, arguments = _parameters(function)
        while any(known.startswith(name) for known in function.__code__.co_varnames):
            name = "_" + name
    namespace: dict[str, Any] = {name: run}
    source = kind.format(parameters=parameters, arguments=arguments, run=name)
    exec(compile(source, "<agentprof>", "exec"), namespace)
    call: Callable[..., Any] = functools.wraps(function)(namespace["call"])
    if inspect.isfunction(function) and inspect.isfunction(call):
        call.__defaults__ = function.__defaults__
        call.__kwdefaults__ = function.__kwdefaults__
    return call


def _parameters(function: Any) -> tuple[str, str]:
    """Parameters as a definition says them, and arguments as a call does. Defaults are put in place later."""
    code = function.__code__
    names = list(code.co_varnames)
    positional = [names.pop(0) for _ in range(code.co_argcount)]
    named = [names.pop(0) for _ in range(code.co_kwonlyargcount)]
    required = len(positional) - len(function.__defaults__ or ())
    parameters = [name if at < required else f"{name}=None" for at, name in enumerate(positional)]
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    arguments = list(positional)
    if code.co_flags & inspect.CO_VARARGS:
        rest = "*" + names.pop(0)
        parameters.append(rest)
        arguments.append(rest)
    elif named:
        parameters.append("*")
    defaults = function.__kwdefaults__ or {}
    parameters += [f"{name}=None" if name in defaults else name for name in named]
    arguments += [f"{name}={name}" for name in named]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        rest = "**" + names.pop(0)
        parameters.append(rest)
        arguments.append(rest)
    return ", ".join(parameters), ", ".join(arguments)
