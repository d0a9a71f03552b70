"""Spans that the SDK of the Model Context Protocol makes of itself, and agentprof's around them."""

from typing import Any

import pytest
from support.spans import TASK, task

from agentprof.model import RawSpan, Span
from agentprof.rollup import roll_up
from agentprof.vocabularies import normalise

CALLED = {"mcp.method.name": "tools/call", "jsonrpc.request.id": "2"}
SERVED = CALLED | {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}
CLIENT, SERVER = 3, 2


def sdk(span_id: str, parent: str | None, name: str, start: int, end: int, kind: int, **said: Any) -> Span:
    """A span of the SDK."""
    return normalise(
        RawSpan(
            trace_id="0" * 31 + "1",
            span_id=span_id,
            parent_id=parent,
            name=name,
            kind=kind,
            start_ns=start,
            end_ns=end,
            attributes=said,
            scope="mcp-python-sdk",
        )
    )


def test_the_clients_span_is_a_tool_under_its_name() -> None:
    """Which stands only in the name of the span."""
    span = sdk("c", None, "MCP send tools/call get_weather", 0, 9, CLIENT, **CALLED)
    assert (span.kind, span.title, span.server_side) == ("tool", "get_weather", False)
    conventional = sdk("c", None, "tools/call get_weather", 0, 9, CLIENT, **CALLED)
    assert (conventional.kind, conventional.title) == ("tool", "get_weather")


def test_the_servers_span_says_its_tool() -> None:
    """By the attributes of the conventions."""
    span = sdk("s", None, "tools/call get_weather", 0, 9, SERVER, **SERVED)
    assert (span.kind, span.title, span.server_side) == ("tool", "get_weather", True)
    assert span.tool is not None
    assert span.tool.mcp


@pytest.mark.parametrize("method", ["tools/list", "resources/read", "prompts/get", "initialize"])
def test_other_messages_are_no_tools(method: str) -> None:
    """Whatever they name."""
    span = sdk("c", None, f"MCP send {method} x", 0, 9, CLIENT, **{"mcp.method.name": method})
    assert (span.kind, span.tool) == ("other", None)


@pytest.mark.parametrize("ours", [True, False])
def test_client_and_server_are_one_run(ours: bool) -> None:
    """The outermost counts, with the server's time inside, and that is no doubt about the numbers."""
    spans = [
        task("root", 0, 100),
        sdk("s", "c", "tools/call get_weather", 30, 60, SERVER, **SERVED),
        sdk("c", "o" if ours else "root", "MCP send tools/call get_weather", 20, 80, CLIENT, **CALLED),
    ]
    if ours:
        spans.append(sdk("o", "root", "execute_tool get_weather", 15, 85, 1, **SERVED))
    summary = roll_up(TASK, spans)
    assert {name: row.runs for name, row in summary.tools.items()} == {"get_weather": 1}
    assert summary.timeline_ns["tool"] == summary.busy_ns["tool"] == (70 if ours else 60)
    assert summary.warnings == []
