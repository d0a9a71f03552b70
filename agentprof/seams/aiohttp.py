"""aiohttp with no SDK above: the session's `_request` is the call, each `connect` of its connector an exchange.

Bodies are observed in place, where the library puts bytes that come: a reader keeps them in a queue, and for
a response that belongs to a call that queue notes what is put into it. Such a call ends when its body has
arrived, however long the program takes to read it.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from agentprof import _calls, _guard, _runtime
from agentprof._arrivals import Arrivals
from agentprof._calls import Call
from agentprof._clock import stamp_ns
from agentprof._connecting import Stretch, measured_async
from agentprof._context import Attachment
from agentprof._failures import failure_kind
from agentprof._hidden_usage import UsageFilter
from agentprof._patching import Patch, patches_in
from agentprof.dialects import Asked, Dialect, Told, asked_by, asked_in, dialect_of
from agentprof.seams import _http

MODULES: Final[tuple[str, ...]] = ("aiohttp.client", "aiohttp.client_reqrep", "aiohttp.connector")

_OBSERVER: Final = "_agentprof_observer"


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in one of the modules."""
    return patches_in(module, _WANTED[module.__name__])


# --- the call ------------------------------------------------------------------------------------
def _request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def _request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, args, kwargs)
        if call is None:
            return await original(self, *args, **kwargs)
        if isinstance(call, Attachment):
            try:
                return await original(self, *args, **kwargs)
            finally:
                call.detach()
        try:
            response = await original(self, *args, **kwargs)
        except BaseException as error:
            _http.failed(call, error, _status)
            raise
        _answered(call, response)
        _http.returned(call)
        return response

    return _request


def _begin(session: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | Attachment | None:
    """Start a call if this request is one to a model; or hide the task from a host of models."""
    if _http.is_inside_a_call() or _runtime.active() is None:
        return None
    try:
        method, given = args
        url = session._build_url(given)
        dialect = _http.wanted(method, url.path)
        asked = _asked(dialect, url.path, kwargs) if dialect is not None else None
        if dialect is None or asked is None:
            return _http.hush(url.host or "")
        return _http.begin(session, dialect, asked, url.scheme, url.host, url.port, None)
    except Exception:
        _guard.failed("the start of a call")
        return None


def _status(error: BaseException) -> str:
    """Of a session that raises for refusals the error has the status."""
    status = getattr(error, "status", None)
    return str(status) if status else failure_kind(error)


def _asked(dialect: Dialect, path: str, kwargs: dict[str, Any]) -> Asked | Told | None:
    """What the body asks for: of an object only the names are looked at, what is not at hand not at all."""
    sent, data = kwargs.get("json"), kwargs.get("data")
    if isinstance(sent, dict):
        return asked_by(dialect, path, sent, sent.get("model"), sent.get("stream"))
    if isinstance(data, str):
        data = data.encode()
    return asked_in(dialect, path, data) if isinstance(data, bytes) else None


# --- its exchanges -------------------------------------------------------------------------------
def _connect(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def connect(self: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        call = _calls.current_call()
        if call is None or not call.is_open:
            return await original(self, req, *args, **kwargs)
        _to_send(call, req)
        stretch = Stretch(call, "tcp")
        try:
            return await original(self, req, *args, **kwargs)
        finally:
            stretch.over()

    return connect


def _call_of(connector: Any) -> Call | None:
    return _calls.current_call()


def _with_handshake(original: Callable[..., Any]) -> Callable[..., Any]:
    """TCP, then TLS: the event loop makes its protocol in between, before it begins with the handshake."""

    @functools.wraps(original)
    async def _wrap_create_connection(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _calls.current_call()
        if call is None or not kwargs.get("ssl") or not args or not callable(args[0]):
            return await original(self, *args, **kwargs)
        stretches: list[Stretch] = []

        def protocol() -> Any:
            stretches.append(Stretch(call, "tls"))
            return args[0]()

        try:
            return await original(self, protocol, *args[1:], **kwargs)
        finally:
            if stretches:
                stretches[0].over()

    return _wrap_create_connection


def _to_send(call: Call, request: Any) -> None:
    """Note an exchange; `request` is the library's own object, made for this exchange."""
    try:
        # The call of an SDK counts its attempts itself; what a middleware asks for is no exchange of the call.
        if getattr(call.owner, "_request_class", None) is None or dialect_of(request.url.path) is None:
            return
        call.body = getattr(request.body, "_value", None)  # of payloads that are not read from somewhere
        value = _http.traceparent(call, request.url.host)
        if value is not None and "traceparent" not in request.headers:
            request.headers["traceparent"] = value
        body = _http.asking(call, call.body, request.headers)
        if body is not None:
            if "Content-Length" in request.headers:
                request.headers["Content-Length"] = str(len(body))
            request.update_body_from_data(body)
    except Exception:
        _guard.failed("the start of an attempt")


def _answered(call: Call, response: Any) -> None:
    try:
        call.headers = response.raw_headers
        if call.headers_arrived(response.status):
            _observe(call, response)
    except Exception:
        _guard.failed("reading an answer")


# --- the body ------------------------------------------------------------------------------------
class _Arriving(deque[bytes]):
    """The queue of a reader, which notes what is put into it."""

    arrivals: Arrivals

    def append(self, data: bytes) -> None:
        super().append(data)
        _take(self.arrivals, data)


class _Sieve(deque[bytes]):
    """The same, for a stream of which a part does not reach the program."""

    arrivals: Arrivals
    reader: Any
    """Counts what is in the queue; this is called in the middle of it."""

    def __init__(self, of_reader: Any) -> None:
        super().__init__()
        self.reader = of_reader
        self._hide = UsageFilter(None)

    def append(self, data: bytes) -> None:
        _take(self.arrivals, data)
        self._put(self._hide(data), len(data))

    def finish(self) -> None:
        """The stream is over."""
        self._put(self._hide.finish(), 0)

    def _put(self, data: bytes, counted: int) -> None:
        if data:
            super().append(data)
        self.reader._size += len(data) - counted
        self.reader.total_bytes += len(data) - counted


def _take(arrivals: Arrivals, data: bytes) -> None:
    try:
        arrivals.chunk(data)
    except Exception:
        _guard.failed("reading a chunk")


class _Observer:
    """Of one response; it goes when the response goes."""

    def __init__(self, call: Call, content: Any) -> None:
        self._call = call
        self._content = content

    def left(self, error: BaseException | None) -> None:
        """The response is given back, perhaps before the end of its body.

        Args:
            error: What the program is in the middle of.
        """
        broken = self._content.exception()
        if broken is None and error is not None and _is_of_reading(error):
            broken = error
        if broken is None:
            self._call.stream_left()
        else:
            self._call.stream_failed(broken, stamp_ns())

    def __del__(self) -> None:
        try:
            self.left(None)
        except Exception:
            _guard.failed("ending a dropped stream")


def _is_of_reading(error: BaseException) -> bool:
    """Whether an error came up inside the library: there the program waits for what comes next."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith("aiohttp.")


def _observe(call: Call, response: Any) -> None:
    content = response.content
    queue = getattr(content, "_buffer", None)
    if not isinstance(queue, deque):
        return  # there is no body
    arrivals = call.arrivals(None)
    arriving: _Arriving | _Sieve
    if call.hides_usage:
        arriving = _Sieve(content)
        arriving.arrivals = arrivals
        for data in queue:
            arriving.append(data)
        content.on_eof(arriving.finish)
    else:
        for data in queue:
            _take(arrivals, data)
        arriving = _Arriving(queue)
        arriving.arrivals = arrivals
    content._buffer = arriving
    vars(response)[_OBSERVER] = _Observer(call, content)
    content.on_eof(lambda: call.stream_over(stamp_ns()))


def _end(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def end(self: Any) -> Any:
        observer = vars(self).get(_OBSERVER)
        if observer is not None:
            try:
                observer.left(sys.exception())
            except Exception:
                _guard.failed("a stream that was left")
        return original(self)

    return end


_WANTED: Final[dict[str, list[tuple[str, str, Callable[[Any], Any]]]]] = {
    "aiohttp.client": [("ClientSession", "_request", _request)],
    "aiohttp.client_reqrep": [("ClientResponse", "close", _end), ("ClientResponse", "release", _end)],
    "aiohttp.connector": [
        ("BaseConnector", "connect", _connect),
        ("BaseConnector", "_wait_for_available_connection", measured_async("pool", _call_of)),
        ("TCPConnector", "_wrap_create_connection", _with_handshake),
        ("TCPConnector", "_start_tls_connection", measured_async("tls", _call_of)),
    ],
}
