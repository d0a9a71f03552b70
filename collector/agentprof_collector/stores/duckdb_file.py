"""One DuckDB database for many threads: cursors lent out, transactions, and opening again after a breakdown."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import duckdb

from agentprof_collector.errors import StoreError, StoreLocked, StoreMissing, StoreNotWritten, StoreUnusable
from agentprof_collector.stores import is_there

_T = TypeVar("_T")
Cursor = duckdb.DuckDBPyConnection
Work = Callable[[Cursor], _T]

# The file must be usable with no network, and nothing is fetched behind the user's back.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_MEMORY: Final = "256MB"
"""For pages of the file that were read or written lately, and for questions; without it four fifths of the machine."""
_NAME: Final = "store"
_ROWS_IN_A_GROUP: Final = 8_192
_opening = threading.Lock()
_written: set[Path] = set()
"""Files that this process has open for writing."""
_ALL_THE_SAME: Final = "COMMIT succeeded and is durable"
"""In the message of a commit after which the tidying up of the file failed."""


class _BrokenDown(Exception):
    """The database cannot be used before it is opened again."""


class DuckDbFile:
    """A database that is open until `close`.

    Every piece of work has a cursor of its own while it lasts, as a result that is being read owns its
    cursor. A write that the disk refuses is undone by DuckDB. If the disk refuses while DuckDB moves the
    write-ahead log into the file, the database is invalid until it is opened again, which the next piece of
    work does; nothing that was committed is lost by that.

    Args:
        path: created if absent, unless read only; None keeps everything in memory.
        read_only: writing fails; several processes may read at once.

    Raises:
        StoreError: missing, held by another process, or not usable.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self.place = path or Path(":memory:")
        self._path = path
        self._read_only = read_only
        self._state = threading.Condition()
        self._idle: list[Cursor] = []
        self._lent = 0
        self._broken = False
        self._closed = False
        self._connection: Cursor | None = _connect(path, read_only)

    def read(self, work: Work[_T]) -> _T:
        """What the work answers; all its questions see one state of the database."""
        return self._twice_if_broken(self._reading, work)

    def write(self, work: Work[_T]) -> _T:
        """The same with changes, which are durable, all of them, when this returns.

        The work may be done twice: once more after the database had to be opened again.
        """
        return self._twice_if_broken(self._writing, work)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file and give back space, if nothing hinders it just now."""
        with self._cursor() as cursor:
            try:
                cursor.execute("CHECKPOINT")
            except duckdb.Error as error:
                if _is_breakdown(error):
                    self._note_broken()

    def close(self) -> None:
        """Release the file, after the work that is going on."""
        with self._state:
            self._closed = True
            self._state.wait_for(lambda: not self._lent)
            self._disconnect()

    def _twice_if_broken(self, how: Callable[[Work[_T]], _T], work: Work[_T]) -> _T:
        try:
            return how(work)
        except _BrokenDown as error:
            if self._path is None:
                raise StoreUnusable(self.place, f"has broken down ({error})") from error
        try:
            return how(work)
        except _BrokenDown as error:
            raise StoreNotWritten(self.place, str(error)) from error

    def _reading(self, work: Work[_T]) -> _T:
        with self._transaction() as cursor:
            found = work(cursor)
            cursor.commit()
            return found

    def _writing(self, work: Work[_T]) -> _T:
        with self._transaction(writes=True) as cursor:
            found = work(cursor)
            try:
                cursor.commit()
            except duckdb.Error as error:
                if _ALL_THE_SAME not in str(error):
                    raise
                self._note_broken()
            return found

    @contextlib.contextmanager
    def _transaction(self, *, writes: bool = False) -> Iterator[Cursor]:
        with self._cursor() as cursor:
            try:
                cursor.begin()
                yield cursor
            except duckdb.Error as error:
                if _is_breakdown(error):
                    self._note_broken()
                    raise _BrokenDown(first_line(error)) from error
                _undo(cursor)
                if writes:
                    raise StoreNotWritten(self.place, first_line(error)) from error
                raise StoreUnusable(self.place, f"cannot be read ({first_line(error)})") from error
            except BaseException:
                _undo(cursor)
                raise

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        cursor = self._borrow()
        try:
            yield cursor
        finally:
            self._give_back(cursor)

    def _borrow(self) -> Cursor:
        with self._state:
            self._state.wait_for(lambda: not self._broken or not self._lent)
            if self._closed:
                raise StoreUnusable(self.place, "is closed")
            if self._broken or self._connection is None:
                self._disconnect()
                self._connection = _connect(self._path, self._read_only)
                self._broken = False
            cursor = self._idle.pop() if self._idle else self._cursor_of(self._connection)
            self._lent += 1
            return cursor

    def _give_back(self, cursor: Cursor) -> None:
        with self._state:
            self._lent -= 1
            if self._broken:
                cursor.close()
            else:
                self._idle.append(cursor)
            self._state.notify_all()

    def _note_broken(self) -> None:
        # In memory there is nothing to open again: what is left may still be read.
        with self._state:
            self._broken = self._path is not None

    def _cursor_of(self, connection: Cursor) -> Cursor:
        cursor = connection.cursor()
        if self._path is not None and not self._read_only:
            cursor.execute(f"USE {_NAME}")
        return cursor

    def _disconnect(self) -> None:
        if self._connection is None:
            return
        for cursor in self._idle:
            cursor.close()
        self._idle.clear()
        self._connection.close()
        self._connection = None
        if self._path is not None and not self._read_only:
            with _opening:
                _written.discard(self._path.resolve())


def _connect(path: Path | None, read_only: bool) -> Cursor:
    if path is None:
        return duckdb.connect(":memory:", config=_CONFIG)
    if read_only and not is_there(path):
        raise StoreMissing(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        place = path.resolve()
    except OSError as error:
        raise StoreUnusable(path, f"cannot be opened ({error.strerror or error})") from error
    with _opening:
        # Another look at the file by this process would end its lock, as locks of files are.
        if place in _written:
            raise StoreLocked(path, os.getpid())
        try:
            if read_only:
                return duckdb.connect(place, read_only=True, config=_CONFIG)
            connection = _attached(place)
        except duckdb.Error as error:
            raise _refusal(path, error) from error
        _written.add(place)
        return connection


def _attached(place: Path) -> Cursor:
    """A connection to an empty database in memory beside which the file is attached.

    Only so can it have small groups of rows: large ones are written again and again while they fill, and
    their room is given back only when all of their rows are gone.
    """
    config = _CONFIG | {"memory_limit": _MEMORY, "temp_directory": f"{place}.tmp"}
    connection = duckdb.connect(":memory:", config=config)
    try:
        literal = str(place).replace("'", "''")
        connection.execute(f"ATTACH '{literal}' AS {_NAME} (ROW_GROUP_SIZE {_ROWS_IN_A_GROUP})")
    except BaseException:
        connection.close()
        raise
    return connection


def _refusal(path: Path, error: duckdb.Error) -> StoreError:
    text = str(error)
    if "Could not set lock" in text:
        pid = re.search(r"\(PID (\d+)\)", text)
        return StoreLocked(path, int(pid[1]) if pid else None)
    return StoreUnusable(path, f"cannot be opened ({first_line(error)})")


def _is_breakdown(error: duckdb.Error) -> bool:
    return isinstance(error, duckdb.FatalException) or "has been invalidated" in str(error)


def _undo(cursor: Cursor) -> None:
    # A failed commit has already ended the transaction.
    with contextlib.suppress(duckdb.TransactionException):
        cursor.rollback()


def first_line(error: duckdb.Error) -> str:
    """What a person needs of an error's text."""
    return str(error).partition("\n")[0]
