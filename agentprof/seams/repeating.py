"""SDKs that send through plain HTTP clients and repeat failed attempts themselves: one use of the method that
repeats is one call, whose attempts the seams of the HTTP libraries see.

What does not go to a model is no call here either. An SDK that never repeats needs no entry: each of its requests is a
call as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from opentelemetry import context as otel_context

from agentprof import _context, _guard, _repeated
from agentprof._context import Attachment
from agentprof._patching import Patch, Wanted, patches_in
from agentprof._repeated import Scope
from agentprof.seams import _self_tracing, httpx


class _Hushed(Scope):
    """Where no baggage names the task: an SDK that traces itself sends all there is, before there is a call."""

    __slots__ = ("_attachment",)

    def __init__(self) -> None:
        context = otel_context.get_current()
        self._attachment = (
            Attachment(_context.hushed(context), context) if _context.is_named(context) else None
        )
        super().__init__()

    def end(self, error: BaseException | None) -> None:
        """The method returned, or raised this error."""
        try:
            super().end(error)
        finally:
            if self._attachment is not None:
                self._attachment.detach()


# --- the call ------------------------------------------------------------------------------------
_Sends = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""Finds in the arguments of a method the request of httpx that it will send."""


def _repeats(original: Callable[..., Any], sends: _Sends | None = None) -> Callable[..., Any]:
    @functools.wraps(original)
    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        scope = _opened(sends, args, kwargs)
        if scope is None:
            return original(self, *args, **kwargs)
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            _end(scope, error)
            raise
        _end(scope, None)
        return result

    return request


def _repeats_async(original: Callable[..., Any], sends: _Sends | None = None) -> Callable[..., Any]:
    @functools.wraps(original)
    async def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        scope = _opened(sends, args, kwargs)
        if scope is None:
            return await original(self, *args, **kwargs)
        try:
            result = await original(self, *args, **kwargs)
        except BaseException as error:
            _end(scope, error)
            raise
        _end(scope, None)
        return result

    return request


def _opened(sends: _Sends | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Scope | None:
    try:
        scope = _repeated.open_scope(_Hushed)
    except Exception:
        _guard.failed("the start of a call")
        return None
    if scope is not None and sends is not None:
        _expect(scope, sends, args, kwargs)
    return scope


def _expect(scope: Scope, sends: _Sends, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Begin the call before the SDK makes spans of its attempts, which hang from it then."""
    try:
        request = sends(args, kwargs)
        if type(request).__module__.partition(".")[0] in ("httpx", "httpx2"):
            httpx.begin(None, request)
            scope.expect()
    except Exception:
        _guard.failed("the start of a call")


def _end(scope: Scope, error: BaseException | None) -> None:
    try:
        scope.end(error)
    except Exception:
        _guard.failed("the end of a call")


# --- the SDKs ------------------------------------------------------------------------------------
def _second(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kwargs.get("request", args[1] if len(args) > 1 else None)


_SPEAKEASY: Final[tuple[Wanted, ...]] = (
    ("BaseSDK", "do_request", functools.partial(_repeats, sends=_second)),
    ("BaseSDK", "do_request_async", functools.partial(_repeats_async, sends=_second)),
)
_FERN: Final[tuple[Wanted, ...]] = (
    ("HttpClient", "request", _repeats),
    ("AsyncHttpClient", "request", _repeats_async),
)
_GOOGLE: Final[tuple[Wanted, ...]] = (
    ("BaseApiClient", "_request", _repeats),
    ("BaseApiClient", "_async_request", _repeats_async),
    ("ApiClient", "_request", _repeats),  # its name in the first versions
    ("ApiClient", "_async_request", _repeats_async),
)
_WANTED: Final[dict[str, tuple[Wanted, ...]]] = {
    "aiobotocore.endpoint": (("AioEndpoint", "_send_request", _repeats_async),),
    "cohere.core.http_client": _FERN,
    "google.genai._api_client": _GOOGLE,
    "google.genai._gaos.basesdk": _SPEAKEASY,  # interactions
    "mistralai.basesdk": _SPEAKEASY,
    "mistralai.client.basesdk": _SPEAKEASY,
    "mistralai.client._hooks.traceparent": (
        ("TraceparentInjectionHook", "before_request", _self_tracing.no_span_of_ours),  # before an attempt
    ),
    "mistralai.azure.client.basesdk": _SPEAKEASY,
    "mistralai.gcp.client.basesdk": _SPEAKEASY,
    "mistralai_azure.basesdk": _SPEAKEASY,
    "mistralai_gcp.basesdk": _SPEAKEASY,
    "openrouter.basesdk": _SPEAKEASY,
}
"""Methods that repeat, by module; another SDK is one more entry."""

MODULES: Final[tuple[str, ...]] = tuple(_WANTED)


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in one of the modules."""
    return patches_in(module, _WANTED[module.__name__])
