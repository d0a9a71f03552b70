"""Seam of the Model Context Protocol: calls of tools, what they carry, and the server that takes them in."""

from __future__ import annotations

from types import ModuleType

from agentprof._patching import Patch

MODULES: tuple[str, ...] = (
    "mcp.client.session",
    "mcp.shared.session",
    "mcp.shared.jsonrpc_dispatcher",
    "mcp.server.lowlevel.server",
    "mcp.server._otel",
    "mcp.client.stdio",
    "mcp.client.sse",
    "mcp.client.streamable_http",
    "mcp.client.websocket",
)


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in one of these modules."""
    from agentprof.seams import _mcp

    return _mcp.patches(module)
