"""Time to get a connection, below httpx and httpx2: waiting for a free one, and TCP and TLS of a new one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from agentprof import _calls
from agentprof._calls import Call
from agentprof._connecting import Stretch, measured_async
from agentprof._patching import Patch, patches_in

MODULES: Final[tuple[str, ...]] = (
    "httpcore._sync.connection",
    "httpcore._sync.connection_pool",
    "httpcore._async.connection",
    "httpcore._async.connection_pool",
    "httpcore._backends.sync",
    "httpcore._backends.anyio",
    "httpcore._backends.trio",
    "httpcore2._sync.connection",
    "httpcore2._sync.connection_pool",
    "httpcore2._async.connection",
    "httpcore2._async.connection_pool",
    "httpcore2._backends.sync",
    "httpcore2._backends.anyio",
    "httpcore2._backends.trio",
)


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in a module of either library; what a version of it lacks is not."""
    return patches_in(module, _WANTED[module.__name__.rpartition(".")[2]])


def _sync(part: str) -> Callable[[Any], Any]:
    """`measured_async` for a method that is no coroutine function."""

    def replaced(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def measured(self: Any, *args: Any, **kwargs: Any) -> Any:
            call = _call_of(self)
            if call is None:
                return original(self, *args, **kwargs)
            stretch = Stretch(call, part)
            try:
                return original(self, *args, **kwargs)
            finally:
                stretch.over()

        return measured

    return replaced


def _call_of(owner: Any) -> Call | None:
    """The open call, unless `owner` is a request in a pool that has its connection already."""
    return None if getattr(owner, "connection", None) is not None else _calls.current_call()


_WANTED: Final[dict[str, list[tuple[str, str, Callable[[Any], Any]]]]] = {
    "connection": [
        ("HTTPConnection", "_connect", _sync("tcp")),
        ("AsyncHTTPConnection", "_connect", measured_async("tcp", _call_of)),
    ],
    "connection_pool": [
        ("PoolRequest", "wait_for_connection", _sync("pool")),
        ("AsyncPoolRequest", "wait_for_connection", measured_async("pool", _call_of)),
    ],
    "sync": [
        ("SyncStream", "start_tls", _sync("tls")),
        ("TLSinTLSStream", "start_tls", _sync("tls")),
    ],
    "anyio": [("AnyIOStream", "start_tls", measured_async("tls", _call_of))],
    "trio": [("TrioStream", "start_tls", measured_async("tls", _call_of))],
}
