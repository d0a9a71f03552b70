"""Time to get a connection, below httpx and httpx2: waiting for a free one, and TCP and TLS of a new one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from agentprof import _calls
from agentprof._clock import stamp_ns
from agentprof._patching import Patch, patches_in

MODULES: Final[tuple[str, ...]] = (
    "httpcore._sync.connection",
    "httpcore._sync.connection_pool",
    "httpcore._async.connection",
    "httpcore._async.connection_pool",
    "httpcore2._sync.connection",
    "httpcore2._sync.connection_pool",
    "httpcore2._async.connection",
    "httpcore2._async.connection_pool",
)


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in a module of either library; what a version of it lacks is not."""
    return patches_in(module, _WANTED[module.__name__.rpartition(".")[2]])


def _connect(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _connect(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _calls.current_call()
        if call is None:
            return original(self, *args, **kwargs)
        began = stamp_ns()
        try:
            return original(self, *args, **kwargs)
        finally:
            call.connect_ns += stamp_ns() - began

    return _connect


def _connect_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def _connect(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _calls.current_call()
        if call is None:
            return await original(self, *args, **kwargs)
        began = stamp_ns()
        try:
            return await original(self, *args, **kwargs)
        finally:
            call.connect_ns += stamp_ns() - began

    return _connect


def _wait(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait_for_connection(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = None if self.connection is not None else _calls.current_call()
        if call is None:
            return original(self, *args, **kwargs)
        began = stamp_ns()
        try:
            return original(self, *args, **kwargs)
        finally:
            call.connect_ns += stamp_ns() - began

    return wait_for_connection


def _wait_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def wait_for_connection(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = None if self.connection is not None else _calls.current_call()
        if call is None:
            return await original(self, *args, **kwargs)
        began = stamp_ns()
        try:
            return await original(self, *args, **kwargs)
        finally:
            call.connect_ns += stamp_ns() - began

    return wait_for_connection


_WANTED: Final[dict[str, list[tuple[str, str, Callable[[Any], Any]]]]] = {
    "connection": [
        ("HTTPConnection", "_connect", _connect),
        ("AsyncHTTPConnection", "_connect", _connect_async),
    ],
    "connection_pool": [
        ("PoolRequest", "wait_for_connection", _wait),
        ("AsyncPoolRequest", "wait_for_connection", _wait_async),
    ],
}
