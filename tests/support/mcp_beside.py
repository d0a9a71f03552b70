"""A program with a tracer provider of its own that calls an MCP tool: prints what `task.summary()` says and all spans.

`mcp_beside.py SERVER-FILE with|without` agentprof; the server is a process without it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import agentprof
from agentprof._readable import to_raw


async def _work(file: str) -> Any:
    server = [str(Path(__file__).with_name("mcp_raw.py")), file]
    async with (
        stdio_client(StdioServerParameters(command=sys.executable, args=server)) as streams,
        ClientSession(*streams) as session,
    ):
        await session.initialize()
        with agentprof.task("agent") as task:
            await session.call_tool("add", {"a": 1})
        return task.summary().to_dict()


def main(file: str, how: str) -> None:
    """Make one call."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    if how == "with":
        agentprof.instrument(tracer_provider=provider)
    summary = asyncio.run(_work(file))
    spans = [to_raw(span) for span in exporter.get_finished_spans()]
    print(
        json.dumps(
            {
                "summary": summary,
                "spans": [
                    {"name": span.name, "id": span.span_id, "parent": span.parent_id, "scope": span.scope}
                    for span in spans
                ],
                "failures": agentprof.stats().failures,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
