"""Tools of MCP servers: a call is a tool run, and its server joins the trace. Loaded when the SDK is.

The client's `ClientSession.call_tool` makes the span. What names the span to the server travels in the request's
`_meta`, as the protocol proposes (https://modelcontextprotocol.io, SEP-414): always to a server that the program
has started itself (stdio), else to the hosts of `propagate_to`. From 2 on the SDK sends the context of a span of its
own there, to any server; where the program has no tracer provider it would send ours, which is prevented likewise.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from agentprof import _baggage, _context, _guard, _names, _runtime, attributes
from agentprof._context import Attachment
from agentprof._marks import Mark
from agentprof._patching import Patch, Wanted, patches_in, patches_of_function

_CALL: Final = "tools/call"
_TRANSPORTS: Final = (
    "stdio_client",
    "sse_client",
    "streamablehttp_client",
    "streamable_http_client",
    "websocket_client",
)
_LOCAL: Final = "stdio_client"
_THIS_PROGRAM: Final = ""
"""Stands for a server that the program has started, among hosts."""
_server_of: dict[int, str] = {}
"""Host of the server that reads what is written to a stream, by its id, while it is connected."""
_sending: ContextVar[_Sending | None] = ContextVar("agentprof_mcp", default=None)
"""The tool that is being called here."""


class _Sending:
    """To whom a call goes."""

    __slots__ = ("allowed", "local", "sent")

    def __init__(self, session: Any, runtime: _runtime.Runtime) -> None:
        stream = getattr(session, "_write_stream", None)
        if stream is None:
            stream = getattr(getattr(session, "_dispatcher", None), "_write_stream", None)
        host = _server_of.get(id(stream))
        self.local = host == _THIS_PROGRAM
        self.sent = False
        """The call itself has been sent: what follows, such as a look at what the tool may give, is not it."""
        self.allowed = self.local or (host is not None and runtime.settings.propagates_to(host))


def patches(module: ModuleType) -> list[Patch]:
    """Tool calls, what they carry, and where a server takes it in."""
    found = patches_in(module, _WANTED.get(module.__name__, ()))
    if module.__name__ == "mcp.shared.jsonrpc_dispatcher":
        found += patches_of_function(module, "inject_trace_context", _inject_trace_context)
    return found + _transport_patches(module)


# --- the tool run --------------------------------------------------------------------------------
def _describe(name: str) -> dict[str, AttributeValue]:
    return {
        attributes.OPERATION: "execute_tool",
        attributes.TOOL_NAME: name,
        attributes.MCP_METHOD: _CALL,
    }


_MARK: Final = Mark[Any](
    None, kind="tool", span_prefix="execute_tool ", describe=_describe, compares_arguments=True
)


class _Run:
    """One call of a tool."""

    __slots__ = ("_attachment", "_opened", "_token")

    def __init__(self, session: Any, name: Any, arguments: Any, runtime: _runtime.Runtime) -> None:
        sending = _Sending(session, runtime)  # first: nothing is left open where it fails
        named = _names.text(name if isinstance(name, str) else None, _names.NAME_CHARS)
        self._opened = _MARK.open(named or "tool", (None, (), {"arguments": arguments}))
        self._attachment = self._opened.attach() if self._opened is not None else None
        self._token = _sending.set(sending)

    def over(self, error: BaseException | None, failed: bool = False) -> None:
        """The call returned or raised."""
        try:
            try:
                _sending.reset(self._token)
            except ValueError:  # closed in another context than it was begun in
                _sending.set(None)
            if self._attachment is not None:
                self._attachment.detach()
            if self._opened is not None:
                if failed:
                    self._opened.fail("tool_error")
                self._opened.end(error)
        except Exception:
            _guard.failed("the end of a call of an MCP tool")


def _begun(session: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Run | None:
    runtime = _runtime.active()
    if runtime is None:
        return None
    try:
        name = args[0] if args else kwargs.get("name")
        return _Run(session, name, args[1] if len(args) > 1 else kwargs.get("arguments"), runtime)
    except Exception:
        _guard.failed("a call of an MCP tool")
        return None


def _call_tool(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def call_tool(self: Any, *args: Any, **kwargs: Any) -> Any:
        run = _begun(self, args, kwargs)
        if run is None:
            return await original(self, *args, **kwargs)
        try:
            result = await original(self, *args, **kwargs)
        except BaseException as error:
            run.over(error)
            raise
        run.over(None, failed=_is_error(result))
        return result

    return call_tool


def _is_error(result: Any) -> bool:
    """Whether the tool ran and says that it failed."""
    return getattr(result, "is_error", None) is True or getattr(result, "isError", None) is True


# --- what a call carries -------------------------------------------------------------------------
def _send_request(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of version 1, whose requests carry no context by themselves."""

    @functools.wraps(original)
    async def send_request(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        return await original(self, _with_context(request), *args, **kwargs)

    return send_request


def _with_context(request: Any) -> Any:
    """A copy of a request that names the present span, if it may; else the request."""
    sending = _sending.get()
    if sending is None or not sending.allowed:
        return request
    try:
        call = request.root
        if call.method != _CALL:
            return request
        carried: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carried)
        if not sending.local:
            carried = {name: text for name, text in carried.items() if name == "traceparent"}
        elif (task := _context.task_in()) is not None:
            carried["baggage"] = _baggage.header_of(task)
        meta = call.params.meta
        meta = meta.model_copy(update=carried) if meta is not None else type(call.params).Meta(**carried)
        params = call.params.model_copy(update={"meta": meta})
        return type(request)(call.model_copy(update={"params": params}))
    except Exception:
        _guard.failed("what a call of an MCP tool carries")
        return request


def _inject_trace_context(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of version 2, which sends the context of whatever span is current."""

    @functools.wraps(original)
    def inject_trace_context(meta: dict[str, Any]) -> None:
        attached = _to_send()
        try:
            original(meta)
        finally:
            if attached is not None:
                attached.detach()

    return inject_trace_context


def _to_send() -> Attachment | None:
    """Make current what may be sent; None if that is what is current already."""
    if _runtime.active() is None:
        return None
    try:
        held = otel_context.get_current()
        sending = _sending.get()
        ours = sending is not None or _context.task_in(held) is not None
        call = sending if sending is not None and not sending.sent else None
        context = held if call is not None and call.local else _context.hushed(held)
        is_sdks_own = trace.get_current_span(held).is_recording()
        if ours and not is_sdks_own and (call is None or not call.allowed):
            context = trace.set_span_in_context(trace.INVALID_SPAN, context)
        if call is not None:
            call.sent = True
        return Attachment(context, held) if context is not held else None
    except Exception:
        _guard.failed("what a request to an MCP server carries")
        return None


# --- which server a stream leads to --------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class _CellPatch(Patch):
    """What a context manager made by `contextlib` calls: programs hold the manager itself by many names."""

    def current(self) -> Any:
        """What the manager calls now: a cell has no `__dict__`."""
        return self.owner.cell_contents

    def module(self) -> str:
        """Name of the module of the transport: a cell has none."""
        return str(self.original.__module__)


def _transport_patches(module: ModuleType) -> list[Patch]:
    found: list[Patch] = []
    for name in _TRANSPORTS:
        function = vars(module).get(name)
        if getattr(function, "__module__", None) != module.__name__:
            continue
        code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
        if code is not None and cells is not None and code.co_freevars == ("func",):
            original = cells[0].cell_contents
            replacement = _transport(original, name == _LOCAL)
            found.append(_CellPatch(cells[0], "cell_contents", original, replacement))
    return found


def _transport(original: Callable[..., AsyncIterator[Any]], local: bool) -> Callable[..., Any]:
    connected = asynccontextmanager(original)

    @functools.wraps(original)
    async def connect(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async with connected(*args, **kwargs) as streams:
            key = None
            try:
                key = id(streams[1])
                _server_of[key] = _THIS_PROGRAM if local else _host(args, kwargs)
            except Exception:
                _guard.failed("connecting to an MCP server")
            try:
                yield streams
            finally:
                if key is not None:
                    _server_of.pop(key, None)

    return connect


def _host(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    url = args[0] if args else kwargs.get("url")
    return urlsplit(str(url)).hostname or "?"


# --- the server's side ---------------------------------------------------------------------------
def _handle_request(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of version 1."""

    @functools.wraps(original)
    async def _handle_request(self: Any, message: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        attached = _arriving(getattr(getattr(req, "params", None), "meta", None))
        try:
            return await original(self, message, req, *args, **kwargs)
        finally:
            if attached is not None:
                attached.detach()

    return _handle_request


def _middleware(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of version 2, where the SDK takes in the span, and leaves the baggage."""

    @functools.wraps(original)
    async def __call__(self: Any, ctx: Any, call_next: Any) -> Any:
        attached = _arriving(getattr(ctx, "meta", None))
        try:
            return await original(self, ctx, call_next)
        finally:
            if attached is not None:
                attached.detach()

    return __call__


def _arriving(meta: Any) -> Attachment | None:
    """Make current what a request names, unless a task of this program's own is; None if it names nothing."""
    if meta is None or _runtime.active() is None:
        return None
    try:
        said = meta if isinstance(meta, Mapping) else {name: getattr(meta, name, None) for name in _CARRIED}
        carried = {name: text for name in _CARRIED if isinstance(text := said.get(name), str)}
        held = otel_context.get_current()
        if not carried or _context.declared_task(held) is not None:
            return None
        context = TraceContextTextMapPropagator().extract(carried, held)
        context = _baggage.with_header(carried.get("baggage", ""), context)
        return Attachment(context, held)
    except Exception:
        _guard.failed("a request to an MCP server")
        return None


_CARRIED: Final = ("traceparent", "tracestate", "baggage")
_WANTED: Final[dict[str, tuple[Wanted, ...]]] = {
    "mcp.client.session": (("ClientSession", "call_tool", _call_tool),),
    "mcp.shared.session": (("BaseSession", "send_request", _send_request),),
    "mcp.server.lowlevel.server": (("Server", "_handle_request", _handle_request),),
    "mcp.server._otel": (("OpenTelemetryMiddleware", "__call__", _middleware),),
}
