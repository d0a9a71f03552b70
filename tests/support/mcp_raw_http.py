"""The MCP server without the SDK, over HTTP: it keeps every message and all headers that it gets."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.loopback import Loopback
from support.mcp_raw import answer_to


class RawServer(Loopback):
    """Answers with JSON."""

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

        super().__init__(Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{super().url}/mcp"
