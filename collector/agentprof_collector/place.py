"""Where the spans of a run are kept: its database, or beside it while another process holds that."""

from __future__ import annotations

import contextlib
import http.client
import socket
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from agentprof_collector.collect.lockfile import LockFile, is_of_this_user, read_lock
from agentprof_collector.errors import StoreError, StoreLocked
from agentprof_collector.receive.exchange import Request
from agentprof_collector.recompute import copy_traces
from agentprof_collector.settings import TOKEN_VARIABLE, token
from agentprof_collector.stores import Store, open_store

_FORWARD_S: Final = 10.0
_ANSWERS_S: Final = 2.0
_FREE_S: Final = 2.0
"""How long the end of a run waits for a database that is held."""
_MEDIA: Final = {"protobuf": "application/x-protobuf", "json": "application/json"}


class Place(NamedTuple):
    """Where the spans of a run are kept."""

    store: Store
    path: Path
    held: str | None = None
    """Why they are not in the database that was asked for."""
    holder: LockFile | None = None
    """The collector that holds that database, as far as it says so."""


def open_place(database: Path) -> Place:
    """The database, or a file of the run while another process holds it.

    Raises:
        StoreError: it can not be used at all.
    """
    try:
        return Place(open_store(database), database)
    except StoreLocked as locked:
        aside = Path(tempfile.mkdtemp(prefix="agentprof-run-")) / database.name
        held = str(locked).partition(". ")[0]
        holder = read_lock(database) if is_of_this_user(database) else None
        return Place(open_store(aside), aside, held, holder)


def forward(holder: LockFile, request: Request) -> str | None:
    """Give a request to a running collector; why it did not take it, None if it did."""
    headers = {"content-type": _MEDIA[request.media]}
    if request.encoding:
        headers["content-encoding"] = request.encoding
    secret = token()
    if secret:
        headers["authorization"] = f"Bearer {secret}"
    try:
        target = urlsplit(holder.otlp_http or holder.url or "")
        kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
        with contextlib.closing(kind(target.netloc, timeout=_FORWARD_S)) as connection:
            path = f"{target.path.rstrip('/')}/v1/{request.signal}"
            connection.request("POST", path, request.body, headers)
            response = connection.getresponse()
            response.read()
    except (OSError, ValueError, http.client.HTTPException) as error:
        return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    match response.status:
        case http.client.OK:
            return None
        case http.client.UNAUTHORIZED if secret:
            return f"401: what {TOKEN_VARIABLE} holds is not its token"
        case http.client.UNAUTHORIZED:
            return f"401: it asks for its token, set {TOKEN_VARIABLE}"
    return f"status {response.status}"


def answers(url: str) -> bool:
    """Whether somebody still listens at the address of a page."""
    try:
        target = urlsplit(url)
        port = target.port or (443 if target.scheme == "https" else 80)
        with socket.create_connection((target.hostname or "", port), timeout=_ANSWERS_S):
            return True
    except (OSError, ValueError):
        return False


def move(store: Store, trace_ids: Iterable[str], database: Path) -> str | None:
    """Copy spans to a database that was held; why not, if it is still held after a moment."""
    traces = set(trace_ids)
    until = time.monotonic() + _FREE_S
    while True:
        try:
            with open_store(database) as target:
                copy_traces(store, target, traces)
                return None
        except StoreError as error:
            if not isinstance(error, StoreLocked) or time.monotonic() > until:
                return str(error)
        time.sleep(0.05)


def remove(aside: Path) -> None:
    """Remove a file of a run, and its folder."""
    for file in [*aside.parent.glob("*"), aside.parent]:
        with contextlib.suppress(OSError):
            file.rmdir() if file.is_dir() else file.unlink()
