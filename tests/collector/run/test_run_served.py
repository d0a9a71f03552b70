"""Requests served by a program under `agentprof run` are tasks, if something happens in them."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from support.model_server import ModelServer
from support.runs import RUN, ran, started

from agentprof_collector.stores import open_store

ASK = """
    import sys, threading, urllib.request
    from openai import OpenAI
    client = OpenAI(base_url=sys.argv[1], api_key="key")

    def ask():
        client.chat.completions.create(model="gpt-4o-mini", messages=[])

    def visit(port, path, method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method, data=None)
        try:
            return urllib.request.urlopen(request, timeout=20).read()
        except urllib.error.HTTPError as error:
            return error.code

    def visits(port):
        print(visit(port, "/health"), visit(port, "/chat/17?secret=1", "POST"), visit(port, "/chat/18", "POST"))
        print(visit(port, "/broken"))
    """

WSGI = """
    def app(environ, start_response):
        path = environ["PATH_INFO"]
        if path.startswith("/chat"):
            ask()
        start_response("200 OK", [("content-type", "text/plain")])
        if path == "/broken":
            ask()
            raise ValueError
        def body():
            if path == "/chat/18":
                ask()
            yield b"fine"
        return body()
    """

ASGI = """
    import asyncio
    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        path = scope["path"]
        if path.startswith("/chat"):
            await asyncio.to_thread(ask)
        if path == "/broken":
            ask()
            raise ValueError
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if path == "/chat/18":
            await asyncio.to_thread(ask)
        await send({"type": "http.response.body", "body": b"fine"})
    """

SERVERS = {
    "wsgiref": (
        WSGI,
        """
    from wsgiref.simple_server import make_server
    server = make_server("127.0.0.1", 0, app)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    visits(server.server_port)
    server.shutdown()
    """,
    ),
    "werkzeug": (
        WSGI,
        """
    from werkzeug.serving import make_server
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    visits(server.server_port)
    server.shutdown()
    """,
    ),
    "uvicorn": (
        ASGI,
        """
    import socket, uvicorn
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="critical"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    visits(listening.getsockname()[1])
    server.should_exit = True
    thread.join()
    """,
    ),
}


@pytest.mark.parametrize("name", SERVERS)
def test_requests_are_tasks(name: str, script: Any, environment: dict[str, str], server: ModelServer) -> None:
    """Named by method and path without ids and query; a stream of the answer is part of it; others are none."""
    pytest.importorskip(name)
    app, serve = SERVERS[name]
    file = script("".join(map(textwrap.dedent, (ASK, app, serve))))
    run, tasks = ran([], [sys.executable, file, server.url], environment)
    assert run.stdout.splitlines()[0] == b"b'fine' b'fine' b'fine'", run.stderr
    found = [(task["name"], task["calls"], task["task_source"], task["parent_task_id"]) for task in tasks]
    assert found == [
        ("POST /chat/{}", 1, "declared", None),
        ("POST /chat/{}", 2, "declared", None),
        ("GET /broken", 1, "declared", None),
    ]
    assert [task["outcome"] for task in tasks[:2]] == [None, None]
    # The server of werkzeug hides what leaves the application.
    assert tasks[2]["outcome"] == (None if name == "werkzeug" else "failure")
    assert all(task["complete"] for task in tasks)


class OverUnixSocket(http.client.HTTPConnection):
    """A connection to a server that listens on a file."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


@pytest.mark.parametrize("worker", ["sync", "gthread"])
def test_requests_to_workers_are_tasks(
    worker: str, script: Any, environment: dict[str, str], server: ModelServer, tmp_path: Path
) -> None:
    """Of gunicorn, which forks them; the run ends with it."""
    pytest.importorskip("gunicorn")
    file = script(
        textwrap.dedent(ASK.replace("sys.argv[1]", repr(server.url))) + textwrap.dedent(WSGI), "served.py"
    )
    place = tmp_path / "s"
    command = [*RUN, "--", sys.executable, "-m", "gunicorn", "-k", worker, "-w", "2", "-b", f"unix:{place}"]
    with started([*command, "served:app"], environment, cwd=file.parent, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert any("Booting worker" in line for line in process.stderr)
        for path in ("/health", "/chat/1"):
            connection = OverUnixSocket(place)
            connection.request("GET", path)
            assert connection.getresponse().read() == b"fine"
            connection.close()
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 0
    assert "GET /chat/{}" in said
    with open_store(Path(environment["AGENTPROF_DB"]), read_only=True) as store:
        assert [(task.name, task.calls) for task in store.tasks()] == [("GET /chat/{}", 1)]
