"""An MCP server without the SDK that keeps every message it gets: over stdio as a process, over HTTP in a thread.

`mcp_raw.py FILE` serves stdio and writes each line it reads to FILE.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


class RawServer:
    """The same over HTTP, with JSON answers."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["content-length"])))
                owner.messages.append(message)
                owner.headers.append({name.lower(): text for name, text in self.headers.items()})
                answer = answer_to(message)
                body = b"" if answer is None else json.dumps(answer).encode()
                self.send_response(202 if answer is None else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                self.send_response(405)
                self.send_header("content-length", "0")
                self.end_headers()

            do_DELETE = do_GET

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/mcp"

    def __enter__(self) -> RawServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


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
