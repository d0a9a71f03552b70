"""LiteLLM: one use of its functions is one call with all its attempts, whatever it sends through.

What it sends is seen by the seams of the HTTP libraries, or by that of the SDK on the base client of openai; here is
only said where its own retries (`num_retries`) begin and end. A fallback to another model is another call. Its router
uses these functions once for each retry and each fallback, and so each of these is a call.

Some versions send when the first piece of a stream is asked for; and some neither read a stream to its end nor close
it: where the program has read it the call is over.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from agentprof import _guard, _repeated
from agentprof._calls import Call
from agentprof._patching import Patch, Wanted, patches_in, patches_of_function
from agentprof._repeated import Scope, ScopeOfTarget

_STREAMS: Final = "litellm.litellm_core_utils.streaming_handler"
MODULES: Final[tuple[str, ...]] = ("litellm", _STREAMS)
_REPEAT: Final = ("completion", "acompletion", "responses", "aresponses")
"""Functions that repeat what failed; others leave that to what they call."""
_call_of: weakref.WeakKeyDictionary[Any, Call | None] = weakref.WeakKeyDictionary()
"""The call of a stream that the program got; None: it began to read it, and there was no call."""


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in the package, and where it is defined: else it could not be pickled."""
    if module.__name__ == _STREAMS:
        wanted: list[Wanted] = [
            ("CustomStreamWrapper", "__next__", _next),
            ("CustomStreamWrapper", "__anext__", _anext),
        ]
        return patches_in(module, wanted)
    found: list[Patch] = []
    for name in _REPEAT:
        original = vars(module).get(name)
        if not inspect.isfunction(original):
            continue
        around = _repeats_async if inspect.iscoroutinefunction(original) else _repeats
        found += patches_of_function(module, name, around)
    return found


def _repeats(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def completion(*args: Any, **kwargs: Any) -> Any:
        scope = _opened()
        if scope is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            _end(scope, error)
            raise
        _end(scope, None, result)
        return result

    return completion


def _repeats_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def acompletion(*args: Any, **kwargs: Any) -> Any:
        scope = _opened()
        if scope is None:
            return await original(*args, **kwargs)
        try:
            result = await original(*args, **kwargs)
        except BaseException as error:
            _end(scope, error)
            raise
        _end(scope, None, result)
        return result

    return acompletion


def _opened() -> Scope | None:
    try:
        return _repeated.open_scope(ScopeOfTarget)
    except Exception:
        _guard.failed("the start of a call")
        return None


def _end(scope: Scope, error: BaseException | None, result: Any = None) -> None:
    """It is over.

    Args:
        result: What the program gets; a stream may still have to be read.
    """
    try:
        call = scope.call
        scope.end(error)
        if call is not None and call.is_open and _is_stream(result):
            _call_of[result] = call
    except Exception:
        _guard.failed("the end of a call")


# --- streams -------------------------------------------------------------------------------------
def _is_stream(result: Any) -> bool:
    module = sys.modules.get(_STREAMS)
    return module is not None and isinstance(result, module.CustomStreamWrapper)


def _next(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        with _Piece(self):
            return original(self)

    return __next__


def _anext(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def __anext__(self: Any) -> Any:
        with _Piece(self):
            return await original(self)

    return __anext__


class _Piece:
    """The time in which the program waits for the next piece of a stream."""

    __slots__ = ("_scope", "_stream")

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        self._scope = _opened_by_first(self._stream)

    def __exit__(self, kind: object, error: BaseException | None, trace_back: object) -> None:
        if error is not None:
            _stopped(self._stream, self._scope, error)
        elif self._scope is not None:
            _end(self._scope, None, self._stream)


def _opened_by_first(stream: Any) -> Scope | None:
    """What is sent for the first piece of a stream belongs together."""
    try:
        if stream in _call_of:
            return None
        _call_of[stream] = None
        return _opened()
    except Exception:
        _guard.failed("the start of a call")
        return None


def _stopped(stream: Any, scope: Scope | None, error: BaseException) -> None:
    """There is no other piece, or reading raised; that is seen where the bytes come from."""
    is_end = isinstance(error, (StopIteration, StopAsyncIteration))
    if scope is not None:
        _end(scope, None if is_end else error, stream)
    try:
        call = _call_of.get(stream)
        if is_end and call is not None:
            call.stream_left()
    except Exception:
        _guard.failed("the end of a stream")
