"""The file beside a database that says which collector holds it: `FILE.lock.json`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec


class LockFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to reach the collector that holds a database."""

    url: str | None = None
    """Of the page and the API, without a slash at the end."""
    pid: int | None = None
    otlp_http: str | None = None
    """`http://host:port`; spans go to `/v1/traces` there."""
    otlp_grpc: str | None = None
    """`host:port`."""


def lock_path(database: Path) -> Path:
    """Where the file of a database is."""
    return database.with_name(database.name + ".lock.json")


def read_lock(database: Path) -> LockFile | None:
    """What the holder of the database has written; None where nobody has, or it is no such file.

    It may be left over from a collector that was killed: who uses it must expect that nobody answers.
    """
    try:
        said = msgspec.json.decode(lock_path(database).read_bytes(), type=LockFile)
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return None
    return said if said.url and said.url.startswith(("http://", "https://")) else None


def write_lock(database: Path, lock: LockFile) -> None:
    """Replace the file of the database, whoever wrote it: who holds the database is right.

    Raises:
        OSError: it cannot be written.
    """
    path = lock_path(database)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(lock))
    new.replace(path)


def remove_lock(database: Path, pid: int) -> None:
    """Remove the file if it is of this process."""
    said = read_lock(database)
    if said is not None and said.pid == pid:
        with contextlib.suppress(OSError):
            lock_path(database).unlink()


def is_of_this_user(database: Path) -> bool:
    """Whether the file of the database may be trusted: another user's could name a place that collects secrets."""
    try:
        owner = lock_path(database).stat().st_uid
    except OSError:
        return False
    return not hasattr(os, "getuid") or owner in (0, os.getuid())
