"""requests with no SDK above: `Session.send` is the call, the adapter's `send` an exchange.

Requests of the program are left as they are: what goes out with a `traceparent` is a copy.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

from agentprof import _calls, _guard, _runtime
from agentprof._calls import Call
from agentprof._context import Attachment
from agentprof._failures import failure_kind
from agentprof._patching import Patch
from agentprof._providers import provider_of
from agentprof.dialects import asked_in
from agentprof.seams import _http, urllib3

MODULES: Final[tuple[str, ...]] = ("requests.sessions", "requests.adapters")

_GAVE_UP = re.compile(r"too many (\d{3}) error responses")


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in sessions or adapters."""
    if module.__name__ == "requests.sessions":
        owner, replace = module.Session, _send
    else:
        owner, replace = module.HTTPAdapter, _exchange
    original = vars(owner)["send"]
    return [Patch(owner, "send", original, replace(original))]


# --- the call ------------------------------------------------------------------------------------
def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def send(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, args, kwargs)
        if call is None:
            return original(self, *args, **kwargs)
        if isinstance(call, Attachment):
            try:
                return original(self, *args, **kwargs)
            finally:
                call.detach()
        try:
            response = original(self, *args, **kwargs)
        except BaseException as error:
            _http.failed(call, error, _status)
            raise
        _read(call, response)
        _http.returned(call)
        return response

    return send


def _begin(session: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | Attachment | None:
    """Start a call if this request is one to a model; or hide the task from a host of models."""
    if _http.is_inside_a_call() or _runtime.active() is None:
        return None
    try:
        request = args[0] if args else kwargs["request"]
        url = urlsplit(request.url)
        dialect = _http.wanted(request.method, url.path)
        # A body that is still to be generated or read from a file is not looked at.
        body = _bytes(request.body) if dialect is not None else None
        asked = asked_in(dialect, url.path, body) if dialect is not None and isinstance(body, bytes) else None
        if any(name in request.headers for name in ("baggage", "traceparent")) and (
            asked is not None or provider_of(url.hostname or "") is not None
        ):
            # Written by an instrumentation that stands above this, into the request that it was given.
            _http.without_us(request.headers, url.hostname or "")
        if dialect is None or asked is None:
            return _http.hush(url.hostname or "")
        return _http.begin(session, dialect, asked, url.scheme, url.hostname or "", url.port, body)
    except Exception:
        _guard.failed("the start of a call")
        return None


def _bytes(body: Any) -> Any:
    """A body that is given as a text goes out as these bytes."""
    return body.encode() if isinstance(body, str) else body


def _status(error: BaseException) -> str:
    """What failed: errors of requests hold the one of urllib3 they were made from."""
    cause: Any = error.args[0] if error.args and isinstance(error.args[0], BaseException) else error
    reason = getattr(cause, "reason", None)
    if isinstance(reason, BaseException):
        cause = reason
    gave_up = _GAVE_UP.fullmatch(str(cause))
    return gave_up[1] if gave_up else failure_kind(cause)


def _read(call: Call, response: Any) -> None:
    """Take in an answer that came by an adapter that is not the library's own."""
    try:
        if not call.attempts:
            call.exchange()
            call.headers_arrived(response.status_code)
        body = vars(response).get("_content")
        if not call.reading and response.status_code < 300 and isinstance(body, bytes):
            call.answered(response.status_code, body)
    except Exception:
        _guard.failed("reading an answer")


# --- its exchanges -------------------------------------------------------------------------------
def _exchange(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        call = _call_of(self)
        if call is None:
            return original(self, request, *args, **kwargs)
        sent = _to_send(call, request)
        try:
            response = original(self, sent, *args, **kwargs)
        except BaseException as error:
            if sent is not request and getattr(error, "request", None) is sent:
                error.request = request  # type: ignore[attr-defined]
            raise
        response.request = request
        _answered(call, response)
        return response

    return send


def _call_of(adapter: Any) -> Call | None:
    """The open call if it is made by a session with this adapter."""
    call = _calls.current_call()
    if call is None or not call.is_open:
        return None
    adapters = getattr(call.owner, "adapters", None)
    return call if adapters and any(adapter is one for one in adapters.values()) else None


def _to_send(call: Call, request: Any) -> Any:
    """The request, or a copy of it that carries a `traceparent` or asks for the usage of its stream."""
    try:
        value = _http.traceparent(call, urlsplit(request.url).hostname or "")
        if "traceparent" in request.headers:
            value = None
        body = _http.asking(call, _bytes(request.body), request.headers)
        if value is None and body is None:
            return request
        sent = object.__new__(type(request))
        vars(sent).update(vars(request))
        sent.headers = request.headers.copy()
        if value is not None:
            sent.headers["traceparent"] = value
        if body is not None:
            sent.headers["Content-Length"] = str(len(body))
            sent.body = body
        return sent
    except Exception:
        _guard.failed("the start of an attempt")
        return request


def _answered(call: Call, response: Any) -> None:
    try:
        call.headers = _http.pairs_of(response.headers)
        if call.headers_arrived(response.status_code):
            urllib3.observe(response.raw, call)
    except Exception:
        _guard.failed("reading an answer")
