"""A model endpoint on loopback that answers one prepared reply after the other and keeps what it was sent."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.loopback import Loopback

CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "gpt-4o-mini-2024-07-18",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"},
    ],
    "usage": {"prompt_tokens": 100, "completion_tokens": 6, "total_tokens": 106},
}


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> bytes:
    """One event of a chat stream."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "gpt-4o-mini",
    }
    return b"data: " + json.dumps(body | {"choices": choices} | fields).encode() + b"\n\n"


ROLE = chunk({"role": "assistant", "content": ""})
DONE = b"data: [DONE]\n\n"
STREAM = [
    ROLE,
    chunk({"content": "Hel"}),
    chunk({"content": "lo."}),
    chunk({}, "stop"),
    chunk(usage=CHAT["usage"]),
    DONE,
]


@dataclass
class Reply:
    """What to answer."""

    body: bytes | Iterable[bytes | float]
    """Bytes, or pieces to send one by one; a number among them is a pause in seconds."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    """Before the headers."""
    before: Callable[[], object] | None = None
    """Called before the headers, in the thread of the server: may wait for what a test does meanwhile."""
    framing: str = "length"
    """`length`, `chunked`, `close` (the body ends with the connection) or `cut` (chunked, and broken off)."""

    @classmethod
    def json(cls, value: Any, status: int = 200, **headers: str) -> Reply:
        """A whole answer."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return cls(json.dumps(value).encode(), status, {"content-type": "application/json"} | named)

    @classmethod
    def stream(cls, pieces: Iterable[bytes | float] = STREAM, framing: str = "chunked", **more: Any) -> Reply:
        """A stream of events."""
        return cls(pieces, 200, {"content-type": "text/event-stream"}, framing=framing, **more)


@dataclass
class Sent:
    """A request that came in."""

    path: str
    headers: dict[str, str]
    body: bytes
    head: list[tuple[str, str]] = field(default_factory=list, compare=False)
    """Headers as they were written, in order."""

    @property
    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)


class ModelServer(Loopback):
    """Answers POST and GET with the prepared replies, the last of them again and again."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.sent: list[Sent] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.sent.append(Sent(self.path, headers, body, self.headers.items()))
                reply = owner.replies.pop(0) if len(owner.replies) > 1 else owner.replies[0]
                try:
                    owner._answer(self, reply)
                except OSError:
                    self.close_connection = True

            do_GET = do_POST

        super().__init__(Handler)

    def _answer(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        time.sleep(reply.wait_s)
        if reply.before is not None:
            reply.before()
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        if isinstance(reply.body, bytes):
            handler.send_header("content-length", str(len(reply.body)))
            handler.end_headers()
            handler.wfile.write(reply.body)
            return
        if reply.framing == "close":
            handler.send_header("connection", "close")
        else:
            handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for piece in reply.body:
            if isinstance(piece, bytes):
                framed = piece if reply.framing == "close" else b"%x\r\n%s\r\n" % (len(piece), piece)
                handler.wfile.write(framed)
                handler.wfile.flush()
            else:
                time.sleep(piece)
        if reply.framing == "chunked":
            handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.close_connection = True

    @property
    def url(self) -> str:
        """Base URL for a client."""
        return f"{super().url}/v1"
