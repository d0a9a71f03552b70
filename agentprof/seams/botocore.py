"""botocore, below boto3: `_send_request` of its endpoint is the call, `_send` an attempt, `_needs_retry` the pause
after one.

That covers all of its retry modes, and every client and session. Only what goes to a model is looked at: requests
for credentials pass through endpoints of their own. Requests are signed as they are: nothing is added to them. The
body of an answer is read by urllib3, and observed there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

from agentprof import _guard, _runtime
from agentprof._calls import Call
from agentprof._clock import stamp_ns
from agentprof._failures import failure_kind
from agentprof._patching import Patch, patches_in
from agentprof.dialects import asked_in
from agentprof.seams import _http, urllib3

MODULES: Final[tuple[str, ...]] = ("botocore.endpoint",)


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in the endpoint."""
    wanted: list[tuple[str, str, Callable[[Any], Any]]] = [
        ("Endpoint", "_send_request", _send_request),
        ("Endpoint", "_send", _send),
        ("Endpoint", "_needs_retry", _needs_retry),
    ]
    return patches_in(module, wanted)


# --- the call ------------------------------------------------------------------------------------
def _send_request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _send_request(self: Any, request_dict: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, request_dict)
        if call is None:
            return original(self, request_dict, *args, **kwargs)
        try:
            result = original(self, request_dict, *args, **kwargs)
        except BaseException as error:
            _http.failed(call, error, _kind_of)
            raise
        _http.returned(call)
        return result

    return _send_request


def _begin(endpoint: Any, request: Any) -> Call | None:
    """Start a call if this request is one to a model."""
    if _http.is_inside_a_call() or _runtime.active() is None:
        return None
    try:
        url = urlsplit(request["url"])
        dialect = _http.wanted(request["method"], url.path)
        if dialect is None or not isinstance(request["body"], (bytes, bytearray)):
            return None
        body = bytes(request["body"])
        asked = asked_in(dialect, url.path, body)
        if asked is None:
            return None
        return _http.begin(endpoint, dialect, asked, url.scheme, url.hostname or "", url.port, body)
    except Exception:
        _guard.failed("the start of a call")
        return None


def _kind_of(error: BaseException) -> str:
    """The library makes its own error of that of urllib3."""
    return failure_kind(error.__context__ or error)


# --- attempts ------------------------------------------------------------------------------------
def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        call = _http.call_of(self)
        if call is None:
            return original(self, request, *args, **kwargs)
        _attempt(call)
        response = original(self, request, *args, **kwargs)
        _answered(call, request, response)
        return response

    return _send


def _attempt(call: Call) -> None:
    try:
        if call.attempts:
            call.pause_over()  # signing, and the wait of the adaptive mode for a rate, belong to it
        call.attempt()
    except Exception:
        _guard.failed("the start of an attempt")


def _answered(call: Call, request: Any, response: Any) -> None:
    try:
        status = response.status_code
        call.headers = _http.pairs_of(response.headers)
        if status >= 300:
            call.headers_arrived(status)
        elif request.stream_output:
            call.headers_arrived(status)
            urllib3.observe(response.raw, call)
        else:
            call.answered(status, response.content)
    except Exception:
        _guard.failed("reading an answer")


def _needs_retry(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _needs_retry(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _http.call_of(self)
        failed_at = stamp_ns() if call is not None else 0
        needed = original(self, *args, **kwargs)
        if call is not None and needed and call.attempts:
            _repeated(call, args, kwargs, failed_at)
        return needed

    return _needs_retry


def _repeated(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], failed_at: int) -> None:
    """An attempt failed, and the pause after it is over."""
    try:
        response = kwargs["response"] if "response" in kwargs else args[3]
        if response is None:
            error = kwargs["caught_exception"] if "caught_exception" in kwargs else args[4]
            call.repeated(_kind_of(error), failed_at)
        else:
            call.repeated(str(response[0].status_code), failed_at)
    except Exception:
        _guard.failed("a failed attempt")
