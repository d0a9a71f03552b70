"""The OpenTelemetry Collector and Jaeger, as `scripts/build_go` built them, with the configuration of this
repository, and agentprof's collector, each a process of its own on ports of loopback that were free."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "scripts" / "build_go"
PATIENCE_S = 60.0
_BETWEEN_LOOKS_S = 0.05
_Found = TypeVar("_Found")


def built(name: str) -> Path:
    """Where the program is; the test is skipped if it is not built and AGENTPROF_BUILD_GO is not 1."""
    if os.environ.get("AGENTPROF_BUILD_GO") == "1":
        subprocess.run([sys.executable, BUILD, name], check=True)
    found = subprocess.run([sys.executable, BUILD, "--print-path", name], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"{name} is not built: scripts/build_go {name} does it in some minutes")
    return Path(found.stdout.strip())


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for holder in sockets:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in sockets]


def fetch(url: str, timeout_s: float = 5.0, token: str | None = None) -> bytes | None:
    """The body of an answer with 200; None for any other answer, and for none."""
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            body: bytes = answer.read()
            return body
    except (OSError, urllib.error.URLError):
        return None


def eventually(look: Callable[[], _Found | None], what: str = "what was waited for") -> _Found:
    """What a look at another program finds, once it finds something.

    Such programs do not say when something has changed: they can only be asked again and again.
    """
    until = time.monotonic() + PATIENCE_S
    while (found := look()) is None:
        assert time.monotonic() < until, f"{what} did not come"
        threading.Event().wait(_BETWEEN_LOOKS_S)
    return found


class Program:
    """A program of another project that is started, asked for its health, and stopped."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str], health: str, log: Path):
        self.command = [str(part) for part in command]
        self.environment = dict(environment)
        self.health = health
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None

    def start(self) -> None:
        """Returns when it says that it is well."""
        self._output = self.log.open("ab")
        self._process = subprocess.Popen(
            self.command,
            env={**os.environ, **self.environment},
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        process = self._process

        def well() -> bool | None:
            assert process.poll() is None, f"{self.command[0]} has ended:\n{self.log.read_text()[-3000:]}"
            return self.is_well() or None

        try:
            eventually(well, f"the health of {self.command[0]}")
        except BaseException:
            self.stop(signal.SIGKILL)
            raise

    def is_well(self) -> bool:
        """Whether it says so."""
        return fetch(self.health) is not None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ends it and waits for its end."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._output is not None:
            self._output.close()

    def __enter__(self) -> Program:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class Jaeger(Program):
    """Jaeger with `collector/jaeger.yaml`, its badger database in a folder."""

    def __init__(self, folder: Path) -> None:
        health, query, query_grpc, otlp_grpc, otlp_http, metrics = free_ports(6)
        self.api = f"http://127.0.0.1:{query}"
        self.otlp_http = f"http://127.0.0.1:{otlp_http}"
        self.otlp_grpc = f"127.0.0.1:{otlp_grpc}"
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(
            [built("jaeger"), "--config", ROOT / "collector" / "jaeger.yaml"],
            {
                "JAEGER_HEALTH": f"127.0.0.1:{health}",
                "JAEGER_QUERY_HTTP": f"127.0.0.1:{query}",
                "JAEGER_QUERY_GRPC": f"127.0.0.1:{query_grpc}",
                "JAEGER_OTLP_GRPC_LISTEN": self.otlp_grpc,
                "JAEGER_OTLP_HTTP_LISTEN": f"127.0.0.1:{otlp_http}",
                "JAEGER_METRICS_HOST": "127.0.0.1",
                "JAEGER_METRICS_PORT": str(metrics),
                "JAEGER_DATA": str(folder / "badger"),
                "JAEGER_UI_CONFIG": str(ROOT / "collector" / "jaeger-ui.json"),
            },
            f"http://127.0.0.1:{health}/status",
            folder / "jaeger.log",
        )

    def spans(self, trace_id: str) -> list[dict[str, Any]]:
        """The spans of a trace by its stable API: OTLP/JSON, with attributes as one dictionary and `service`."""
        body = fetch(f"{self.api}/api/v3/traces/{trace_id}")
        if body is None:
            return []
        found = []
        for resource in json.loads(body)["result"]["resourceSpans"]:
            service = _plain(resource["resource"].get("attributes", [])).get("service.name")
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    found.append(
                        span | {"attributes": _plain(span.get("attributes", [])), "service": service}
                    )
        return found


def _plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: _value(pair["value"]) for pair in attributes}


def _value(value: dict[str, Any]) -> Any:
    ((kind, said),) = value.items()
    if kind == "arrayValue":
        return [_value(one) for one in said.get("values", [])]
    return int(said) if kind == "intValue" else said


class OtelCollector(Program):
    """The OpenTelemetry Collector with `collector/otelcol.yaml`, its queue in a folder."""

    def __init__(
        self, folder: Path, *, jaeger_grpc: str, agentprof_http: str, token: str | None = None
    ) -> None:
        """Args:
        jaeger_grpc: `host:port`.
        agentprof_http: `http://host:port`.
        token: that agentprof asks for.
        """
        health, grpc, http, metrics = free_ports(4)
        self.http = f"http://127.0.0.1:{http}"
        self.grpc = f"http://127.0.0.1:{grpc}"
        self.metrics = f"http://127.0.0.1:{metrics}/metrics"
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(
            [built("otelcol"), "--config", ROOT / "collector" / "otelcol.yaml"],
            {
                "OTELCOL_HEALTH": f"127.0.0.1:{health}",
                "OTELCOL_GRPC": f"127.0.0.1:{grpc}",
                "OTELCOL_HTTP": f"127.0.0.1:{http}",
                "OTELCOL_METRICS_HOST": "127.0.0.1",
                "OTELCOL_METRICS_PORT": str(metrics),
                "OTELCOL_QUEUE": str(folder / "queue"),
                "JAEGER_OTLP_GRPC": jaeger_grpc,
                "AGENTPROF_OTLP_HTTP": agentprof_http,
                **({"AGENTPROF_TOKEN": token} if token else {}),
            },
            f"http://127.0.0.1:{health}/",
            folder / "otelcol.log",
        )


class AgentprofCollector(Program):
    """`agentprof collect` on a database in a folder; after a restart it has the ports it had before."""

    def __init__(self, folder: Path, *options: str, token: str | None = None) -> None:
        self.token = token
        self.database = folder / "agentprof.duckdb"
        self._lock = folder / "agentprof.duckdb.lock.json"
        self._options = options
        self.url = self.otlp_http = self.otlp_grpc = ""
        folder.mkdir(parents=True, exist_ok=True)
        environment = {"AGENTPROF_TOKEN": token} if token else {}
        super().__init__([], environment, "", folder / "agentprof.log")

    def start(self) -> None:
        """Returns when it listens."""
        self._lock.unlink(missing_ok=True)
        ports = [url.rpartition(":")[2] or "0" for url in (self.url, self.otlp_http, self.otlp_grpc)]
        self.command = [
            *(sys.executable, "-m", "agentprof", "collect", "--db", str(self.database)),
            *(f"--port={ports[0]}", f"--otlp-http-port={ports[1]}", f"--otlp-grpc-port={ports[2]}"),
            *self._options,
        ]
        super().start()

    def is_well(self) -> bool:
        """Whether it says where it is, and answers there."""
        try:
            said = json.loads(self._lock.read_bytes())
        except (OSError, ValueError):
            return False
        self.url, self.otlp_http, self.otlp_grpc = said["url"], said["otlp_http"], said["otlp_grpc"]
        return fetch(f"{self.url}/healthz") is not None

    def metric(self, name: str) -> float:
        """A figure of `/metrics`."""
        body = fetch(f"{self.url}/metrics", token=self.token)
        assert body is not None, "the metrics are not answered"
        (line,) = (line for line in body.decode().splitlines() if line.startswith(f"{name} "))
        return float(line.split()[1])

    def task(self, task_id: str) -> dict[str, Any] | None:
        """The summary of a task; None if it is not known."""
        body = fetch(f"{self.url}/api/v1/tasks/{urllib.parse.quote(task_id, safe='')}", token=self.token)
        return None if body is None else json.loads(body)

    def tasks(self) -> dict[str, dict[str, Any]]:
        """All tasks by id, in the rows of tables."""
        rows: list[dict[str, Any]] = []
        after = ""
        while True:
            body = fetch(f"{self.url}/api/v1/tasks?limit=1000{after}", PATIENCE_S, self.token)
            assert body is not None, "the list of tasks is not answered"
            page = json.loads(body)
            rows += page["tasks"]
            if page["next"] is None:
                break
            after = f"&after={urllib.parse.quote(page['next'])}"
        found = {row["task_id"]: row for row in rows}
        assert len(found) == len(rows), "a task is listed twice"
        return found
