from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

Alone = Callable[..., Any]


class _Api(BaseHTTPRequestHandler):
    """Answers every question with one word; 401 for any key but `right`."""

    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body["model"])
        if self.headers["authorization"] != "Bearer right":
            self.answer(401, "application/json", json.dumps({"error": {"message": "no such key"}}))
            return
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        base = {"id": "x", "created": 1, "model": body["model"], "usage": usage}
        if body.get("stream"):
            choice = {"index": 0, "delta": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}
            chunk = base | {"object": "chat.completion.chunk", "choices": [choice]}
            self.answer(200, "text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")
        else:
            message = {"role": "assistant", "content": "Paris"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.answer(
                200, "application/json", json.dumps(base | {"object": "chat.completion", "choices": [choice]})
            )

    def answer(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Api)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@pytest.fixture
def api() -> Iterator[_Server]:
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_live_asks_the_named_api_and_model(api: _Server, run_alone: Alone, tmp_path: Path) -> None:
    """Every call goes to OPENAI_BASE_URL with the model given, and the tasks are what came of it."""
    done = run_alone(
        *("demo", "--live", "--model", "gpt-4o-mini", "--json"),
        OPENAI_BASE_URL=api.url,
        OPENAI_API_KEY="right",
    )
    assert (done.returncode, done.stderr) == (0, "")
    tasks = json.loads(done.stdout)["tasks"]
    assert [(task["name"], task["outcome"], task["calls"]) for task in tasks] == [
        ("multiply", "failure", 1),
        ("tidy files", "success", 1),
        ("dragons", None, 1),
        ("capital", "success", 2),
        ("tidy files", "success", 1),
    ]
    assert api.asked == ["gpt-4o-mini"] * 6
    assert all(task["tokens"]["input"] == 9 * task["calls"] for task in tasks)
    assert list(tmp_path.iterdir()) == []


def test_live_with_a_refused_key(api: _Server, run_alone: Alone) -> None:
    """The API's own words, and what to check."""
    done = run_alone("demo", "--live", "--model", "m", OPENAI_BASE_URL=api.url, OPENAI_API_KEY="wrong")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no such key" in done.stderr
    assert "OPENAI_BASE_URL" in done.stderr
    assert "Traceback" not in done.stderr


def test_live_without_a_key_or_model(run_alone: Alone) -> None:
    """Says what to set."""
    done = run_alone("demo", "--live", "--model", "m", OPENAI_API_KEY="")
    assert done.returncode == 1
    assert "OPENAI_API_KEY" in done.stderr
    done = run_alone("demo", "--live")
    assert done.returncode == 2
    assert "--live needs --model" in done.stderr


def test_a_switched_off_sdk(run_alone: Alone) -> None:
    """With OpenTelemetry off nothing can be recorded, and the demo says why."""
    done = run_alone("demo", OTEL_SDK_DISABLED="true")
    assert done.returncode == 1
    assert "OTEL_SDK_DISABLED" in done.stderr


def test_the_demo_in_a_terminal(run_alone: Alone) -> None:
    """Five tasks one below the other, a table of them, and what to try next; no file is left."""
    done = run_alone("demo")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    heads = [line for line in lines if "  task " in line]
    assert [line.split("   ")[:2] for line in heads] == [
        ["multiply", "success"],
        ["tidy files", "success"],
        ["dragons", "unknown"],
        ["capital", "success"],
        ["tidy files", "failure"],
    ]
    assert "5 tasks: 3 success, 1 failure, 1 unknown; cost ≥ $0.00203" in done.stdout
    assert "What next:" in lines
    assert max(map(len, lines)) <= 80


def test_without_the_openai_sdk(run_alone: Alone, tmp_path: Path) -> None:
    """The demo's agent needs it; the message says how to install it."""
    (tmp_path / "openai.py").write_text("raise ModuleNotFoundError('no openai', name='openai')\n")
    done = run_alone("demo", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the demo needs: pip install 'agentprof-otel[openai]' (openai is not installed)" in done.stderr
