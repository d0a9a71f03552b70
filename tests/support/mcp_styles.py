"""Ways to call the tools of MCP servers. Runs with many versions of the SDK.

As a program it takes the SDK's name, `mcp`, and prints what the installed version gives, as JSON:
`{style: [what is missing]}`, `null` for a style the version does not have.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from support.mcp_raw_http import RawServer

import agentprof
from agentprof.testing import capture

RAW = Path(__file__).with_name("mcp_raw.py")
SERVER = Path(__file__).with_name("mcp_server.py")
Work = Callable[[Any], Awaitable[Any]]


@asynccontextmanager
async def over_stdio(program: Path, *args: str) -> AsyncIterator[Any]:
    """A session with a server that is a child of this process."""
    import mcp
    from mcp.client.stdio import stdio_client

    parameters = mcp.StdioServerParameters(
        command=sys.executable, args=["-W", "ignore", str(program), *args], env=dict(os.environ)
    )
    async with stdio_client(parameters) as streams, mcp.ClientSession(*streams) as session:
        await session.initialize()
        yield session


def connect_of_http() -> Any | None:
    """What connects over streamable HTTP; None: the version has no such thing."""
    try:
        from mcp.client import streamable_http
    except ImportError:
        return None
    found = vars(streamable_http)
    return found.get("streamable_http_client") or found.get("streamablehttp_client")


@asynccontextmanager
async def over_http(url: str) -> AsyncIterator[Any]:
    """A session with a server that listens."""
    import mcp

    connect: Any = connect_of_http()
    async with connect(url) as streams, mcp.ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def over_sse(url: str) -> AsyncIterator[Any]:
    """A session with a server that listens and answers on a stream of its own."""
    import mcp
    from mcp.client.sse import sse_client

    async with sse_client(url) as streams, mcp.ClientSession(*streams) as session:
        await session.initialize()
        yield session


def messages_in(file: Path) -> list[Any]:
    """The lines of JSON that a server has written."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def carried(messages: list[Any]) -> list[set[str]]:
    """What each call of a tool says beside itself, taken out of it."""
    found = []
    for message in messages:
        params = message.get("params") or {}
        meta = params.get("_meta") or {}
        known = {name for name in ("traceparent", "baggage") if meta.pop(name, None) is not None}
        if message.get("method") == "tools/call":
            found.append(known)
        elif known:
            found.append({f"{name} of {message['method']}" for name in known})
        if params.get("_meta") == {}:
            del params["_meta"]
    return found


# --- what a program does -------------------------------------------------------------------------
async def _call(session: Any) -> Any:
    return repr(await session.call_tool("add", {"a": 1}))


async def _fail(session: Any) -> Any:
    return repr(await session.call_tool(name="fail", arguments={}))


async def _refuse(session: Any) -> Any:
    return await _told(session.call_tool("refuse", {}))


async def _late(session: Any) -> Any:
    versioned = importlib.metadata.version("mcp").startswith("1.")
    timeout: Any = timedelta(seconds=0.05) if versioned else 0.05
    return await _told(session.call_tool("hang", {}, read_timeout_seconds=timeout))


async def _cancelled(session: Any) -> Any:
    hanging = asyncio.create_task(session.call_tool("hang", {}))
    await asyncio.sleep(0.05)
    hanging.cancel()
    return await _told(hanging)


async def _told(awaited: Awaitable[Any]) -> str:
    try:
        return repr(await awaited)
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 (its kind is what is compared)
        return f"{type(error)}: {error}"


WORK: dict[str, tuple[Work, str | None]] = {
    "a result": (_call, None),
    "a result that is an error": (_fail, "tool_error"),
    "refused": (_refuse, "Error"),
    "too late": (_late, "Error"),
    "cancelled": (_cancelled, "CancelledError"),
}
"""With the end of the error type its span must have."""


def _in_a_task(work: Work, session: Callable[[], Any]) -> tuple[Any, Any]:
    """What the program gets, and the task."""

    async def run() -> tuple[Any, Any]:
        async with session() as open_session:
            with agentprof.task("agent") as task:
                return await work(open_session), task

    return asyncio.run(run())


def over_stdio_lacks(work: Work, error: str | None) -> list[str]:
    """What is missing of a call of a server that is a child."""
    with tempfile.TemporaryDirectory() as folder:
        plain, joined = Path(folder, "plain"), Path(folder, "joined")
        without, _ = _in_a_task(work, lambda: over_stdio(RAW, str(plain)))
        with capture() as captured:
            with_us, _ = _in_a_task(work, lambda: over_stdio(RAW, str(joined)))
            failures = agentprof.stats().failures
        before, after = messages_in(plain), messages_in(joined)
        own, ours = carried(before), carried(after)
    return _lacking(
        captured.named("execute_tool"),
        error,
        {
            "same results": with_us == without and not failures,
            "same messages": after == before and not any(own),
            "context of the call": ours == [{"traceparent", "baggage"}],
        },
    )


def over_http_lacks(work: Work, error: str | None, propagates: bool) -> list[str]:
    """What is missing of a call of a server that listens."""
    with RawServer() as plain, RawServer() as joined:
        without, _ = _in_a_task(work, lambda: over_http(plain.url))
        with capture(propagate_to=["127.0.0.1"] if propagates else []) as captured:
            with_us, _ = _in_a_task(work, lambda: over_http(joined.url))
            failures = agentprof.stats().failures
        own, ours = carried(plain.messages), carried(joined.messages)
    return _lacking(
        captured.named("execute_tool"),
        error,
        {
            "same results": with_us == without and not failures,
            "same messages": joined.messages == plain.messages and not any(own),
            "context of the call": ours == [{"traceparent"} if propagates else set()],
        },
    )


def _lacking(spans: list[Any], error: str | None, found: dict[str, bool]) -> list[str]:
    kinds = [dict(span.attributes or {}).get("error.type") for span in spans]
    found["tool run"] = len(spans) == 1
    found["error"] = all((kind is None) if error is None else str(kind).endswith(error) for kind in kinds)
    return [what for what, is_there in found.items() if not is_there]


def server_lacks() -> list[str]:
    """What is missing where the server records spans too, as a process of its own."""

    async def work(session: Any) -> Any:
        return await session.call_tool("add", {"a": 1, "b": 2})

    with tempfile.TemporaryDirectory() as folder, capture() as captured:
        file = Path(folder, "server")
        _, task = _in_a_task(work, lambda: over_stdio(SERVER, "stdio+agentprof", str(file)))
        inside = next((line for line in messages_in(file) if line.get("name") == "adding"), {})
    (span,) = captured.named("execute_tool")
    context = span.context
    found = {
        "trace": context is not None and inside.get("trace_id") == f"{context.trace_id:032x}",
        "task": inside.get("attributes", {}).get("agentprof.task.id") == task.id,
    }
    return [what for what, is_there in found.items() if not is_there]


def observed() -> dict[str, list[str] | None]:
    """What each style lacks with the installed version."""
    has_timeout = "read_timeout_seconds" in _parameters()
    found: dict[str, list[str] | None] = {}
    for name, (work, error) in WORK.items():
        skipped = work is _late and not has_timeout
        found[f"stdio, {name}"] = None if skipped else over_stdio_lacks(work, error)
    found["stdio, server with agentprof"] = server_lacks()
    for where, propagates in (("a host of `propagate_to`", True), ("elsewhere", False)):
        has_http = connect_of_http() is not None
        found[f"HTTP, {where}"] = over_http_lacks(_call, None, propagates) if has_http else None
    return found


def _parameters() -> set[str]:
    import inspect

    import mcp

    return set(inspect.signature(mcp.ClientSession.call_tool).parameters)


def main() -> None:
    """Print what every style lacks with the installed version."""
    version = importlib.metadata.version("mcp")
    http = "httpx" if version.startswith("1.") else "httpx2"
    print(json.dumps({"sdk": "mcp", "version": version, "http": http, "styles": observed()}))


if __name__ == "__main__":
    main()
