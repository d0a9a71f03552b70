"""botocore, below boto3: each `send` of its HTTP session is a call, as its retries stand above it.

Only what goes to a model is looked at. Requests are signed as they are: nothing is added to them. The body of an
answer is read by urllib3, and observed there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

from agentprof import _calls, _guard, _runtime
from agentprof._calls import Call
from agentprof._failures import failure_kind
from agentprof._patching import Patch, patches_in
from agentprof.dialects import asked_in
from agentprof.seams import _http, urllib3

MODULES: Final[tuple[str, ...]] = ("botocore.httpsession",)


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in the session."""
    wanted: list[tuple[str, str, Callable[[Any], Any]]] = [("URLLib3Session", "send", _send)]
    return patches_in(module, wanted)


def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def send(self: Any, request: Any) -> Any:
        call = _begin(self, request)
        if call is None:
            return original(self, request)
        try:
            response = original(self, request)
        except BaseException as error:
            # The library makes its own error of that of urllib3.
            _http.failed(call, error, failure_kind(error.__context__ or error))
            raise
        _answered(call, request, response)
        _http.returned(call)
        return response

    return send


def _begin(session: Any, request: Any) -> Call | None:
    """Start a call if this request is one to a model."""
    if _calls.current_call() is not None or _runtime.active() is None:
        return None
    try:
        url = urlsplit(request.url)
        dialect = _http.wanted(request.method, url.path)
        body = request.body
        if dialect is None or not isinstance(body, bytes):
            return None
        asked = asked_in(dialect, url.path, body)
        if asked is None:
            return None
        call = _http.begin(session, dialect, asked, url.scheme, url.hostname or "", url.port, body)
        if call is not None:
            call.exchange()
        return call
    except Exception:
        _guard.failed("the start of a call")
        return None


def _answered(call: Call, request: Any, response: Any) -> None:
    try:
        if not call.headers_arrived(response.status_code):
            return
        if request.stream_output:
            urllib3.observe(response.raw, call)
        else:
            call.answered(response.status_code, response.content)
    except Exception:
        _guard.failed("reading an answer")
