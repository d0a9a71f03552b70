"""Routes behind a real server on loopback, and a plain client that sends exactly what it is told to."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from agentprof.model import EnergyWindow, OutcomeFact, RawSpan
from agentprof.pricing import Pricer
from agentprof_collector.pipeline import Pipeline
from agentprof_collector.recompute import record_energy, record_outcome
from agentprof_collector.stores import Store

PATIENCE_S = 30.0
_PRICER = Pricer()
"""One for all: it loads its table once."""


class OfStore:
    """What pages and API ask of a collector, on a store that is fed by a test."""

    def __init__(self, store: Store, jaeger_url: str | None = None) -> None:
        self.store = store
        self.jaeger_url = jaeger_url
        self.brought_up_to_date: list[tuple[str, ...] | None] = []

    def feed(self, spans: Sequence[RawSpan]) -> None:
        """Store spans and add them up."""
        pipeline = Pipeline(self.store, _PRICER)
        pipeline.accept(spans)
        pipeline.recompute()

    def up_to_date(self, task_ids: Collection[str] | None = None) -> None:
        """Everything is; notes that it was asked for."""
        self.brought_up_to_date.append(None if task_ids is None else tuple(task_ids))

    def record_outcome(self, fact: OutcomeFact) -> None:
        """Keep an outcome."""
        record_outcome(self.store, fact)

    def record_energy(self, windows: Sequence[EnergyWindow]) -> None:
        """Keep measured energy, and add its time up again."""
        record_energy(self.store, windows)


class Answered(NamedTuple):
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    """In lower case."""
    body: bytes

    @property
    def document(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The body, read as a text."""
        return self.body.decode()


class Server:
    """Where the routes are served."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answered:
        """Send a request as it stands; underscores in names of headers are dashes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answered(response.status, found, response.read())
        finally:
            connection.close()

    def post_json(self, path: str, document: Any, **headers: str) -> Answered:
        """Send a document."""
        headers.setdefault("Content_Type", "application/json")
        return self.ask(path, "POST", json.dumps(document).encode(), **headers)


@contextmanager
def serving(routes: Sequence[BaseRoute]) -> Iterator[Server]:
    """Serve the routes on a free port until the end of the block."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        application = Starlette(routes=list(routes))
        # Its signal handlers are of no use in a thread; `log_config` would reconfigure logging for all tests.
        config = uvicorn.Config(application, log_config=None, lifespan="off", access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(
            target=lambda: asyncio.run(server.serve(sockets=[bound])), name="serving", daemon=True
        )
        bound.listen()
        thread.start()
        try:
            # A connection waits in the queue of the socket until the server takes it.
            yield Server(bound.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
