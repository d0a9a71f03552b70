"""HTTP servers on sockets that are bound already, in one background thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from typing import Final

import uvicorn
from starlette.types import ASGIApp

_KEEP_ALIVE_S: Final = 60
_GRACE_S: Final = 10
"""How long the end may wait for requests that are being answered."""
_CONNECTIONS: Final = 1000
_HEADERS_BYTES: Final = 64 * 1024


class Servers:
    """Serves each application on its socket, from `start` to `close`.

    Connections that come between the binding of a socket and `start` wait.
    """

    def __init__(self, applications: Sequence[tuple[socket.socket, ASGIApp]]) -> None:
        self._sockets = [bound for bound, _ in applications]
        self._servers = [uvicorn.Server(_config(application)) for _, application in applications]
        self._thread = threading.Thread(target=self._run, name="agentprof-http", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Requests are answered."""
        return self._thread.is_alive()

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


def _config(application: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=_HEADERS_BYTES,
    )
