"""httpx and httpx2 with no SDK above: `send` is the call, `_send_single_request` an exchange.

Requests of the program are left as they are: what goes out with a `traceparent` is a copy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from agentprof import _calls, _guard, _runtime
from agentprof._calls import Call
from agentprof._context import Attachment
from agentprof._patching import Patch, patches_in
from agentprof.dialects import asked_in
from agentprof.seams import _http

MODULES: Final[tuple[str, ...]] = ("httpx._client", "httpx2._client")


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in the clients."""
    wanted: list[tuple[str, str, Callable[[Any], Any]]] = [
        ("Client", "send", _send),
        ("Client", "_send_single_request", _exchange),
        ("AsyncClient", "send", _send_async),
        ("AsyncClient", "_send_single_request", _exchange_async),
    ]
    return patches_in(module, wanted)


# --- the call ------------------------------------------------------------------------------------
def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def send(self: Any, request: Any, **kwargs: Any) -> Any:
        call = begin(self, request)
        if call is None:
            return original(self, request, **kwargs)
        if isinstance(call, Attachment):
            try:
                return original(self, request, **kwargs)
            finally:
                call.detach()
        try:
            response = original(self, request, **kwargs)
        except BaseException as error:
            _http.failed(call, error)
            raise
        _http.returned(call)
        return response

    return send


def _send_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def send(self: Any, request: Any, **kwargs: Any) -> Any:
        call = begin(self, request)
        if call is None:
            return await original(self, request, **kwargs)
        if isinstance(call, Attachment):
            try:
                return await original(self, request, **kwargs)
            finally:
                call.detach()
        try:
            response = await original(self, request, **kwargs)
        except BaseException as error:
            _http.failed(call, error)
            raise
        _http.returned(call)
        return response

    return send


def begin(client: Any, request: Any) -> Call | Attachment | None:
    """Start a call if this request is one to a model; or hide the task from a host of models.

    Args:
        client: What will send it; None if that is not known yet.
    """
    # While the call of an SDK is open here its requests are no calls of their own. They all pass here: it is looked
    # for without calling `is_inside_a_call`.
    call = _calls.current_call()
    if (call is not None and call.is_open) or _runtime.active() is None:
        return None
    try:
        url = request.url
        dialect = _http.wanted(request.method, url.path)
        # Present where the body was given whole; a body that is still to be generated is not looked at.
        body = vars(request).get("_content") if dialect is not None else None
        asked = asked_in(dialect, url.path, body) if dialect is not None and isinstance(body, bytes) else None
        if dialect is None or asked is None:
            return _http.hush(url.host)
        return _http.begin(client, dialect, asked, url.scheme, url.host, url.port, body)
    except Exception:
        _guard.failed("the start of a call")
        return None


# --- its exchanges -------------------------------------------------------------------------------
def _exchange(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _send_single_request(self: Any, request: Any) -> Any:
        call = _http.call_of(self)
        if call is None:
            if "_content" not in vars(request) or request.method != "POST":  # not what an SDK has made
                _redirected(request)
            return original(self, request)
        sent = _to_send(call, request)
        try:
            response = original(self, sent)
        except BaseException as error:
            _give_back(error, sent, request)
            raise
        response.request = request
        _answered(call, response)
        return response

    return _send_single_request


def _exchange_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def _send_single_request(self: Any, request: Any) -> Any:
        call = _http.call_of(self)
        if call is None:
            if "_content" not in vars(request) or request.method != "POST":  # not what an SDK has made
                _redirected(request)
            return await original(self, request)
        sent = _to_send(call, request)
        try:
            response = await original(self, sent)
        except BaseException as error:
            _give_back(error, sent, request)
            raise
        response.request = request
        _answered(call, response)
        return response

    return _send_single_request


def _to_send(call: Call, request: Any) -> Any:
    """The request, or a copy of it that carries a `traceparent` or asks for the usage of its stream."""
    try:
        value = _http.traceparent(call, request.url.host)
        if "traceparent" in request.headers:
            value = None
        # Not `_content`, which a redirected request lacks.
        body = _http.asking(call, vars(request.stream).get("_stream"), request.headers)
        if value is None and body is None:
            return request
        headers = request.headers.copy()
        if value is not None:
            headers["traceparent"] = value
        # Not `copy.copy`, which leaves the body behind.
        sent = object.__new__(type(request))
        vars(sent).update(vars(request))
        sent.headers = headers
        if body is not None:
            headers["content-length"] = str(len(body))
            sent._content = body
            sent.stream = type(request.stream)(body)
        return sent
    except Exception:
        _guard.failed("the start of an attempt")
        return request


def _redirected(request: Any) -> None:
    """Take the `traceparent` of an SDK's call out of a request that leads to a host that may not know it.

    The library copies headers into what it makes of a redirect, which has no body of its own or is a GET; no SDK
    sees it.
    """
    try:
        call = _calls.current_call()
        if call is not None:
            _http.keep_from(call, request.headers, request.url.host)
    except Exception:
        _guard.failed("a redirect")


def _give_back(error: BaseException, sent: Any, request: Any) -> None:
    """An error of the library names the request it is about: the program's own."""
    if sent is not request and getattr(error, "_request", None) is sent:
        error._request = request  # type: ignore[attr-defined]


def _answered(call: Call, response: Any) -> None:
    try:
        call.headers = response.headers
        if not call.headers_arrived(response.status_code):
            return
        if response.is_closed:
            call.answered(response.status_code, response.content)
        else:
            call.answered_open(response)
    except Exception:
        _guard.failed("reading an answer")
