"""The world of the demo on loopback: a model API that replays recordings, and a small service for its tools.

Answers are recorded, times are real: the server waits as long as the recorded one said it took, sends a
stream's chunks with gaps, and refuses one request with 429 before it answers it.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from types import TracebackType
from typing import Any, Self

_UNREPORTED_WAIT_S = 0.35
_CHUNK_GAP_S = 0.02
_RETRY_AFTER_MS = 400
_REFUSED_ONCE = "Delete the file"
_POPULATION = {"Crumpet": 123_124}
_TOOL_DELAY_S = {"GET": 0.15, "PUT": 0.18, "DELETE": 0.12}

# What tells one recorded request from another: model, first question, and turns that asked for tools.
_Key = tuple[str, str, int]


class DemoServer:
    """Context manager: serves while open, on a port the system chooses.

    Args:
        pace: factor on all waiting times; 0 answers at once.
    """

    def __init__(self, pace: float = 1.0) -> None:
        self.pace = pace
        self.recordings = _load_recordings()
        self.files = {".env", "notes.txt"}
        self.refused = False
        self.lock = threading.Lock()
        self._http = _Server(self)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    @property
    def model_url(self) -> str:
        """Base URL of the model API."""
        return f"{self.tool_url}/v1"

    @property
    def tool_url(self) -> str:
        """Base URL of the service the tools use."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def refuse(self, key: _Key) -> bool:
        """Whether this request is the one that meets a full rate limit."""
        with self.lock:
            due = not self.refused and key[1].startswith(_REFUSED_ONCE)
            self.refused = self.refused or due
        return due


class _Server(ThreadingHTTPServer):
    def __init__(self, world: DemoServer) -> None:
        self.world = world
        super().__init__(("127.0.0.1", 0), _Requests)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that cuts a connection it no longer needs is no event; anything else is a mistake of ours."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self._body())
        key = _key(body)
        recording = self.server.world.recordings.get(key)
        if recording is None:
            message = f"the demo has no recording of model {key[0]!r} for {key[1]!r}, turn {key[2]}"
            return self._json(HTTPStatus.NOT_FOUND, {"error": {"message": message}})
        if self.server.world.refuse(key):
            error = {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}
            return self._json(
                HTTPStatus.TOO_MANY_REQUESTS, {"error": error}, {"retry-after-ms": str(_RETRY_AFTER_MS)}
            )
        return self._replay(recording["response"])

    def do_GET(self) -> None:
        country = self.path.rpartition("/")[2]
        self._answer_tool(_POPULATION.get(country))

    def do_PUT(self) -> None:
        self._body()
        name = self.path.rpartition("/")[2]
        with self.server.world.lock:
            self.server.world.files.add(name)
        self._answer_tool("created")

    def do_DELETE(self) -> None:
        name = self.path.rpartition("/")[2]
        with self.server.world.lock:
            found = name in self.server.world.files
            self.server.world.files.discard(name)
        self._answer_tool("deleted" if found else None)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the demo's output is its report."""

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds * self.server.world.pace)

    def _answer_tool(self, result: object) -> None:
        self._wait(_TOOL_DELAY_S[self.command])
        if result is None:
            self._json(HTTPStatus.NOT_FOUND, {"error": f"there is no {self.path}"})
        else:
            self._json(HTTPStatus.OK, {"result": result})

    def _replay(self, response: dict[str, Any]) -> None:
        headers = response["headers"]
        reported_ms = headers.get("openai-processing-ms")
        self._wait(int(reported_ms) / 1000 if reported_ms else _UNREPORTED_WAIT_S)
        body = response["body"].encode()
        if headers["content-type"].startswith("text/event-stream"):
            self._stream(headers, re.findall(rb".+?\n\n", body, re.DOTALL))
        else:
            self._send(response["status"], headers, body)

    def _stream(self, headers: dict[str, str], events: Iterable[bytes]) -> None:
        self.send_response(HTTPStatus.OK)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for at, event in enumerate(events):
            # The last chunks carry no token and follow at once.
            if at and b'"finish_reason":null' in event:
                self._wait(_CHUNK_GAP_S)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def _json(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
        self._send(status, {"content-type": "application/json"} | (headers or {}), json.dumps(value).encode())

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _load_recordings() -> dict[_Key, dict[str, Any]]:
    folder = resources.files(__package__) / "recordings"
    files = [entry for entry in folder.iterdir() if entry.name.endswith(".json")]
    recordings = [json.loads(entry.read_text(encoding="utf-8")) for entry in files]
    return {_key(recording["request"]["body_json"]): recording for recording in recordings}


def _key(body: dict[str, Any]) -> _Key:
    messages = body["messages"]
    question = next(message["content"] for message in messages if message["role"] == "user")
    return body["model"], question, sum(1 for message in messages if message.get("tool_calls"))
