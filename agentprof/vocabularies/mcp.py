"""OpenTelemetry's conventions for the Model Context Protocol, as its own SDK follows them from 2 on.

Client and server each make a span a message; only that of a server names the tool, the client's has it in its name.
https://github.com/open-telemetry/semantic-conventions-genai
"""

from __future__ import annotations

from agentprof import attributes as a
from agentprof.vocabularies.shape import KindRule, Vocabulary

MCP = Vocabulary(
    name="mcp",
    fields={"mcp_method": (a.MCP_METHOD,)},
    kinds=(KindRule(a.MCP_METHOD, {"tools/call": "tool"}),),
)
