"""An MCP server as a process of its own, on any version of the SDK: `mcp_server.py HOW FILE`.

HOW is `stdio`, `http`, `sse` or, from version 2 on, `resumed`, where a tool breaks the stream off that it answers on.

Writes a line of JSON for each span it makes, and for each message its tools got, to FILE. Over HTTP it prints its
port first.
"""

import asyncio
import json
import logging
import socket
import sys
from typing import Any

from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

import agentprof


class Write(SpanProcessor):
    """Each span a line of a file."""

    def __init__(self, file: str) -> None:
        self._file = file

    def line(self, value: Any) -> None:
        """One more line."""
        with open(self._file, "a") as stream:
            stream.write(json.dumps(value) + "\n")

    def on_end(self, span: ReadableSpan) -> None:
        """A span has ended."""
        context = span.context
        assert context is not None
        self.line(
            {
                "name": span.name,
                "trace_id": f"{context.trace_id:032x}",
                "span_id": f"{context.span_id:016x}",
                "parent_id": f"{span.parent.span_id:016x}" if span.parent is not None else None,
                "start_ns": span.start_time,
                "end_ns": span.end_time,
                "kind": span.kind.value + 1,
                "scope": span.instrumentation_scope.name if span.instrumentation_scope else "",
                "attributes": dict(span.attributes or {}),
            }
        )


def _server(file: Write) -> Any:
    # Some versions look at the annotations of tools as they stand: no postponed ones here.
    try:
        from mcp.server.mcpserver import MCPServer as Server
    except ImportError:
        from mcp.server.fastmcp import FastMCP as Server
    server: Any = Server("weather")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds, in a step of the server's own, and tells what it knows of its caller."""
        span = trace.get_current_span().get_span_context()
        known = {"trace_id": f"{span.trace_id:032x}", "baggage": sorted(baggage.get_all())}
        with agentprof.step("adding"):
            file.line({"called": "add", **known})
        return a + b

    @server.tool()
    async def wait(seconds: float) -> str:
        """Takes its time."""
        await asyncio.sleep(seconds)
        return "done"

    @server.tool()
    def fail() -> str:
        """Fails."""
        raise RuntimeError("secret-answer")

    return server


def _resumable(server: Any) -> Any:
    """The server on streamable HTTP, with streams that go on where they broke off."""
    from mcp.server.mcpserver import Context
    from mcp.server.streamable_http import EventMessage, EventStore

    async def interrupted(ctx: Context) -> str:
        await ctx.close_sse_stream()
        await asyncio.sleep(0.05)
        return "done"

    server.tool()(interrupted)

    class Kept(EventStore):
        def __init__(self) -> None:
            self._events: list[tuple[str, Any]] = []

        async def store_event(self, stream_id: str, message: Any) -> str:
            self._events.append((stream_id, message))
            return str(len(self._events))

        async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
            last = int(last_event_id)
            stream_id = self._events[last - 1][0]
            for number, (of_stream, message) in enumerate(self._events[last:], last + 1):
                if of_stream == stream_id and message is not None:
                    await send_callback(EventMessage(message, str(number)))
            return stream_id

    return server.streamable_http_app(event_store=Kept(), retry_interval=20)


def _http(app: Any) -> None:
    import uvicorn

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # who connects before the server runs waits for it
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(app, log_level="error")
        uvicorn.Server(config).run(sockets=[listening])


def main(how: str, file: str) -> None:
    """Serve until the client goes away."""
    written = Write(file)
    logging.disable(logging.ERROR)  # the SDK tells of what a tool raises, which here is part of the tests
    if how.endswith("+agentprof"):
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(written)
        agentprof.instrument(tracer_provider=provider)
    server = _server(written)
    if how.startswith("stdio"):
        server.run()
    elif how.startswith("sse"):
        _http(server.sse_app())
    elif how.startswith("resumed"):
        _http(_resumable(server))
    else:
        _http(server.streamable_http_app())


if __name__ == "__main__":
    main(*sys.argv[1:])
