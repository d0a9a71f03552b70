"""HTTP servers on sockets that are bound already, in one background thread."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import threading
from collections.abc import Sequence
from typing import Final

import uvicorn
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agentprof_collector.collect.connection import Connection, State
from agentprof_collector.receive.asgi import refusal
from agentprof_collector.receive.exchange import put_off

_KEEP_ALIVE_S: Final = 60
_GRACE_S: Final = 10
"""How long the end may wait for requests that are being answered."""
_CONNECTIONS: Final = 1000
"""Of each server. What comes beyond them is put off; beyond twice as many it is cut off."""
_HEADERS_BYTES: Final = 64 * 1024


class Servers:
    """Serves each application on its socket, from `start` to `close`.

    Connections that come between the binding of a socket and `start` wait.
    """

    def __init__(self, applications: Sequence[tuple[socket.socket, ASGIApp]]) -> None:
        self._sockets = [bound for bound, _ in applications]
        self._servers = [_Server(application) for _, application in applications]
        self._thread = threading.Thread(target=self._run, name="agentprof-http", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Requests are answered."""
        return self._thread.is_alive()

    @property
    def malformed(self) -> int:
        """Requests that were no HTTP."""
        return sum(server.state.malformed for server in self._servers)

    def start(self) -> None:
        """Take requests."""
        self._thread.start()

    def close(self) -> None:
        """Take no more requests, and finish those that are being answered."""
        for server in self._servers:
            server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        for bound in self._sockets:
            bound.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        pairs = zip(self._servers, self._sockets, strict=True)
        await asyncio.gather(*(server.serve(sockets=[bound]) for server, bound in pairs))
        await asyncio.gather(*(server.part() for server in self._servers))


class _Server(uvicorn.Server):
    def __init__(self, application: ASGIApp) -> None:
        self._application = application
        self._limit = connection_limit()
        super().__init__(_config(self._limited, 2 * self._limit))
        self.server_state = self.state = State()

    async def part(self) -> None:
        """Let those read the answer whose requests were cut off by the end."""
        await asyncio.gather(*self.server_state.tasks, return_exceptions=True)
        for connection in list(self.server_state.connections):
            assert isinstance(connection, Connection)
            await connection.parted()

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        application = self._application
        if scope["type"] == "http" and len(self.server_state.connections) > self._limit:
            refused = put_off("too many connections are open")
            application = refusal(refused, Headers(scope=scope).get("content-type", ""))
        await application(scope, receive, send)


def connection_limit() -> int:
    """Connections a server answers: files are left for the database, and for the other server."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _CONNECTIONS if soft == resource.RLIM_INFINITY else min(_CONNECTIONS, soft // 8)


def _config(application: ASGIApp, most_connections: int) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        interface="asgi3",
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        # A line for each request that is none would be the sender's to fill the log with; they are counted.
        log_level=logging.ERROR,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        limit_concurrency=most_connections,
        h11_max_incomplete_event_size=_HEADERS_BYTES,
    )
