"""An MCP server without the SDK, over stdio, that keeps every message it gets.

`mcp_raw.py FILE` writes each line it reads to FILE. It imports nothing of the tests.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("add", "fail", "refuse", "hang")]


def answer_to(message: dict[str, Any]) -> dict[str, Any] | None:
    """What to answer; None to a notification, and to what never gets an answer."""
    if "id" not in message:
        return None
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            answer["result"] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            }
        case "tools/list":
            answer["result"] = {"tools": TOOLS}
        case "tools/call" if params["name"] == "hang":
            return None
        case "tools/call" if params["name"] == "refuse":
            answer["error"] = {"code": -32000, "message": "no"}
        case "tools/call":
            text = {"type": "text", "text": "3"}
            answer["result"] = {"content": [text], "isError": params["name"] == "fail"}
        case _:
            answer["error"] = {"code": -32601, "message": "unknown method"}
    return answer


def main(file: str) -> None:
    """Serve stdio until it is closed."""
    for line in sys.stdin:
        with open(file, "a") as stream:
            stream.write(line)
        answer = answer_to(json.loads(line))
        if answer is not None:
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
